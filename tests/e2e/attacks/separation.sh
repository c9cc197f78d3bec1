#!/usr/bin/env bash
# An attacker has taken over the system-wide daemon, which does not run as root. The launcher runs as root and trusts
# nothing that the daemon sends. alice plays a user who has never called divvy, bob one who has. The daemon's user talks
# to the launcher.
. "$(dirname "$0")/lib.sh"
serve
# Only the launcher and the supervisors that it forked run as root. The process in the daemon's pid file does not.
job=$(as bob divvy submit --quiet -- sleep 1000)
wait_for "bob's job" state_is "$job" running
for pid in $(pgrep -u root divvy); do
  tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "^divvy internal-launcher-service " || fail "root's is $(tr '\0' ' ' <"/proc/$pid/cmdline")"
done
expect divvy "$(stat -c %U "/proc/$(daemon_pid)")" "the daemon's user"
expect "0000000000000000" "$(sed -n 's/^CapEff:\t//p' "/proc/$(daemon_pid)/status")" "the daemon's capabilities"

# Only the daemon's user can talk to the launcher.
hangs_up() {
  /usr/bin/python3 - "$1" <<'P'
import socket, sys
kind = socket.SOCK_STREAM if sys.argv[1] == "launches" else socket.SOCK_SEQPACKET
link = socket.socket(socket.AF_UNIX, kind)
link.settimeout(10)
try:
    link.connect("/run/divvy-launcher/" + sys.argv[1])
    sys.exit(0 if link.recv(100) == b"" else 1)
except (ConnectionResetError, PermissionError):
    sys.exit(0)
P
}
export -f hangs_up
for door in launches errands; do as bob bash -c "hangs_up $door" || fail "bob is heard at $door"; done

bobs=$(/usr/bin/python3 - <<'P'
import sqlite3
rows = sqlite3.connect("file:/var/lib/divvy/divvy.db?mode=ro", uri=True).execute("select value from settings where key = 'right.61002.61002'")
print(rows.fetchone()[0])
P
) || fail "the daemon has no right to run bob's jobs"

# The daemon's user, with everything that the daemon has.
as_divvy() { setpriv --reuid=divvy --regid=divvy --clear-groups --inh-caps=-all /usr/bin/python3 "$@"; }
cat "$attacks/taken_over.py" - >/var/lib/tmp/taken_over.py <<'P'
ALICE, BOB = 61001, 61002
# Files of users.
check("alice's files are closed", read_file(ALICE, ALICE, NONE, b"/var/lib/home/alice/diary")[0])
check("bob's right is not alice's", read_file(ALICE, ALICE, BOBS, b"/var/lib/home/alice/diary")[0])
check("nor that of another group", read_file(BOB, 0, BOBS, b"/var/lib/home/bob/diary")[0])
check("bob's files are read", read_file(BOB, BOB, BOBS, b"/var/lib/home/bob/diary")[1])
for path in (b"/etc/shadow", b"/proc/1/environ", b"/var/lib/divvy-launcher/right.key", b"/proc/self/fd/3", b"relative", b"/a\0b"):
    check("bob cannot read " + repr(path), not read_file(BOB, BOB, BOBS, path)[1])
# Authorizations: none for the connecting end, whose kernel credentials are those of its listener, and none for a socket
# pair.
for name in (None, "/var/lib/divvy/named"):
    caller = socket.socket(socket.AF_UNIX)
    if name:
        caller.bind(name)
    caller.connect("/var/lib/tmp/alices")
    refused = errand(RIGHT, fd=caller.fileno())
    check("who connects to alice gets no right of hers", refused[0] and "not a connection of a user" in refused[3])
pair = socket.socketpair()
check("nor does who has a pair", errand(RIGHT, fd=pair[0].fileno())[0])
check("a file is no connection", errand(RIGHT, fd=os.open("/etc/passwd", os.O_RDONLY))[0])
own = socket.socket(socket.AF_UNIX)
own.bind("/var/lib/divvy/own")
own.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("/var/lib/divvy/own")
accepted, _ = own.accept()
refused = errand(RIGHT, fd=accepted.fileno())
check("the daemon's user itself runs no jobs", refused[0] and "system user" in refused[3])
# Programs and signals.
check("no program as alice", errand(START, ALICE, ALICE, BOBS)[0])
check("no program as root", errand(START, 0, 0, BOBS)[0])
check("no signal to what has no run record", errand(SIGNAL, job=4711, signal=9)[0])
# Invalid requests.
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect("/run/divvy-launcher/errands")
link.send(b"x" * 1000)
link.settimeout(20)
check("it is hung up on", link.recv(10) == b"")
P
install -o bob -g bob -m 600 /dev/null /var/lib/home/bob/diary
install -o alice -g alice -m 600 /dev/null /var/lib/home/alice/diary
as alice /usr/bin/python3 - <<'P' &
import os, socket, time
door = socket.socket(socket.AF_UNIX)
door.bind("/var/lib/tmp/alices")
os.chmod("/var/lib/tmp/alices", 0o666)
door.listen()
time.sleep(1000)
P
wait_for "alice's socket" test -S /var/lib/tmp/alices
as_divvy /var/lib/tmp/taken_over.py "$bobs" || fail "the launcher believed the daemon's user"
state_is "$job" running || fail "bob's job is $(field "$job" state)"

# Launches: the launcher serves one daemon at a time, so the real one is stopped first.
divvy down --quiet
cat "$attacks/taken_over.py" - >/var/lib/tmp/launches.py <<'P'
check("no job as root", launch(0, 0, BOBS))
check("no job as a system user", launch(1, 1, BOBS))
check("no job as alice", launch(61001, 61001, BOBS))
check("no job as bob in root's group", launch(61002, 0, BOBS))
check("no job as the launcher itself", launch(-1, -1, BOBS))
P
as_divvy /var/lib/tmp/launches.py "$bobs" || fail "the launcher passed a launch on"

# The next daemon finds bob's job, with the same user, and ends it.
divvy up --quiet --emulate 4xA100-40GB
state_is "$job" running || fail "after the restart bob's job is $(field "$job" state)"
as bob divvy cancel --grace 0 "$job" >/dev/null
wait_for "its end" state_is "$job" cancelled

# The launcher ends on SIGTERM. The daemon continues without it, and divvy up by root starts another one.
launchers() { pgrep -x divvy-launcher; }
old=$(launchers)
kill "$old"
wait_for "the launcher's end" sh -c "! kill -0 $old 2>/dev/null"
job=$(as bob divvy submit --quiet -- true)
wait_for "a job without it" state_is "$job" succeeded
divvy up --quiet 2>message && fail "a second daemon was started"
wait_for "another launcher" launchers
expect 61001 "$(as alice divvy run -- id -u)" "a user who has never called divvy before"
