#!/usr/bin/env bash
# An attacker has taken over a node's agent, which root started and which does not run as root. The launcher on the node
# acts as a user only with an authorization for that user's name, signed by the launcher on the controller's machine.
# bob has called the controller, alice never has.
. "$(dirname "$0")/lib.sh"
. "$attacks/second_machine.sh"
up_listening
make_n1

# Root's agent needs the key of the controller's launcher, which is in a node token. Only root starts the system-wide
# agent.
divvy token create --node >token 2>/dev/null
expect "$(cat /var/lib/divvy-launcher/right.pub)" "$(sed 's/.*\.//' token)" "the key in a token"
sed 's/\.[0-9a-f]*$//' token >keyless.token
there divvy agent --join-file /var/lib/tmp/keyless.token --detach 2>message && fail "it joined without a key"
grep -q "has no launcher key.*DIVVY_HOME" message || fail "it says: $(cat message)"
there test -e /var/lib/divvy-launcher && fail "it has made something"
join_n1
there_as bob divvy agent --detach 2>message && fail "bob started the machine's agent"
grep -q "must be started by root" message || fail "bob is told: $(cat message)"
expect "root 644" "$(there stat -c '%U %a' /var/lib/divvy-launcher/controller.pub)" "whose the controller's key is"

there divvy up --quiet 2>message && fail "a daemon was started beside the agent"
grep -q "an agent (pid .*; divvy agent --stop ends it" message || fail "a daemon beside an agent: $(cat message)"

# A job of an ordinary user, known by name. Only the launcher, supervisors and guards run as root.
job=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- sh -c 'id -un; id -u; until [ -e go ]; do sleep 0.02; done; echo over')
wait_for "bob's job on n1" state_is "$job" running
for pid in $(there pgrep -u root divvy); do
  there tr '\0' ' ' <"/proc/$n1/root/proc/$pid/cmdline" | grep -q "^divvy internal-launcher-service " ||
    fail "root's is $(tr '\0' ' ' <"/proc/$n1/root/proc/$pid/cmdline")"
done
expect divvy "$(there stat -c %U "/proc/$(n1_pid)")" "the agent's user"
expect "0000000000000000" "$(there sed -n 's/^CapEff:\t//p' "/proc/$(n1_pid)/status")" "the agent's capabilities"
WAIT_S=60 wait_for "its output" sh -c "divvy logs $job | grep -q 51002"

# A file that the job names is read with the permissions of its user there, when the controller asks for it.
named=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 --output out -- echo named)
wait_for "the job with a file" state_is "$named" succeeded
expect named "$(as bob divvy logs "$named")" "the file in a folder of bob's on n1"
expect bob "$(there stat -c %U /var/lib/home/bob/out)" "whose it is"

# The agent and the launcher are killed: nothing is lost.
there bash -c 'kill -9 "$@"' sh "$(n1_pid)" $(there pgrep -x "divvy-launcher|divvy-launches")
wait_for "n1 away" node_is n1 away
there divvy agent --detach --quiet || fail "the agent did not come again"
wait_for "n1 again" node_is n1 up
state_is "$job" running || fail "after the kill bob's job is $(field "$job" state)"
there touch /var/lib/home/bob/go
wait_for "its end" state_is "$job" succeeded
as bob divvy logs "$job" | grep -q over || fail "its output: $(as bob divvy logs "$job")"
again=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- true)
wait_for "another job" state_is "$again" succeeded

# The attacker has what the agent had: bob's authorization by name, which the controller sends.
cat "$attacks/taken_over.py" - >/var/lib/tmp/by_name.py <<'P'
for numbers in ((61001, 61001), (0, 0), (61002, 0)):
    check("no name of another's is signed", errand(RIGHT_BY_NAME, *numbers, BOBS)[0])
print(errand(RIGHT_BY_NAME, 61002, 61002, BOBS)[5].hex())
P
own=$(/usr/bin/python3 - <<'P'
import sqlite3
rows = sqlite3.connect("file:/var/lib/divvy/divvy.db?mode=ro", uri=True).execute("select value from settings where key = 'right.61002.61002'")
print(rows.fetchone()[0])
P
)
bobs=$(as_divvy /var/lib/tmp/by_name.py "$own") || fail "the launcher does not sign bob's name"
for user in alice bob; do there install -o $user -g $user -m 600 /dev/null /var/lib/home/$user/diary; done
there divvy agent --stop --quiet || fail "the agent was not stopped"
cat "$attacks/taken_over.py" - >/var/lib/tmp/on_n1.py <<'P'
OWN = bytes.fromhex(sys.argv[2])
ALICE, BOB, BOB_ELSEWHERE = 61001, 51002, 61002
ALICES, BOBS_FILE = b"/var/lib/home/alice/diary", b"/var/lib/home/bob/diary"
changed = bytes([BOBS[0] ^ 1]) + BOBS[1:]
for what, uid, gid, right, path in (
    ("without a right", BOB, BOB, NONE, BOBS_FILE),
    ("with a right that was changed", BOB, BOB, changed, BOBS_FILE),
    ("with the right to numbers of the controller's machine", BOB, BOB, OWN, BOBS_FILE),
    ("in another group", BOB, 0, BOBS, BOBS_FILE),
    ("with the number of the controller's machine", BOB_ELSEWHERE, BOB_ELSEWHERE, BOBS, BOBS_FILE),
    ("with that number and its right", BOB_ELSEWHERE, BOB_ELSEWHERE, OWN, BOBS_FILE),
    ("as alice", ALICE, ALICE, BOBS, ALICES),
    ("as root", 0, 0, BOBS, b"/etc/shadow"),
):
    check("no file " + what, read_file(uid, gid, right, path)[0])
    check("no program " + what, errand(START, uid, gid, right)[0])
    check("no job " + what, launch(uid, gid, right))
check("bob's file is read", read_file(BOB, BOB, BOBS, BOBS_FILE)[1])
check("bob cannot read alice's", not read_file(BOB, BOB, BOBS, ALICES)[1])
check("bob's job is passed on", not launch(BOB, BOB, BOBS))

# alice connects on n1: the launcher there issues an authorization for her uid. It also signs her name, but not with the
# key of the controller's launcher, so that signature is not accepted.
door = socket.socket(socket.AF_UNIX)
door.bind("/var/lib/divvy/door")
os.chmod("/var/lib/divvy/door", 0o666)
door.listen()
print("ready", flush=True)
connection, _ = door.accept()
right = errand(RIGHT, fd=connection.fileno())[5]
check("alice's right on n1", right != NONE)
by_name = errand(RIGHT_BY_NAME, ALICE, ALICE, right)[5]
check("it is signed by name", by_name != NONE)
check("no job by another key", launch(ALICE, ALICE, by_name))
check("no file by another key", read_file(ALICE, ALICE, by_name, ALICES)[0])
P
there_as divvy /usr/bin/python3 /var/lib/tmp/on_n1.py "$bobs" "$own" >said 2>message &
attack=$!
wait_for "the attacks" sh -c "grep -q ready said || ! kill -0 $attack 2>/dev/null"
there_as alice /usr/bin/python3 -c '
import socket
socket.socket(socket.AF_UNIX).connect("/var/lib/divvy/door")' || true
wait "$attack" || fail "the launcher on n1 believed the agent's user: $(cat message)"

# A restarted agent continues.
there divvy agent --detach --quiet || fail "the agent did not come after the attacks"
wait_for "n1 after the attacks" node_is n1 up
again=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- true)
wait_for "a last job" state_is "$again" succeeded
there divvy agent --stop --quiet
