#!/usr/bin/env bash
# Users and administrators are notified of events of jobs and GPUs: by signed webhooks, which are retried and survive
# kill -9, by commands and by mail. Jobs that leave their GPUs idle are warned twice before they are stopped.
receiver="$(cd "$(dirname "$0")" && pwd)/receiver.py"
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed (apt-get install python3)"
receiver_pid=
end_receiver() {
  [ -z "$receiver_pid" ] || kill "$receiver_pid" 2>/dev/null || true
  [ -z "$receiver_pid" ] || wait "$receiver_pid" 2>/dev/null || true
  receiver_pid=
}
trap 'end_receiver; clean_up' EXIT
start_receiver() { # start_receiver [PORT]
  rm -f port
  python3 "$receiver" port got fails "${1:-0}" 2>receiver.log &
  receiver_pid=$!
  wait_for "the receiver" test -s port
}
received() { [ -e got ] && grep -c -- "$1" got || true; }
has_received() { [ "$(received "$1")" -ge "${2:-1}" ]; }
says() { # says PATTERN COMMAND...
  local pattern=$1
  shift
  "$@" 2>&1 | grep -qE -- "$pattern"
}

start_receiver
port=$(cat port)
cat >sendmail <<SH
#!/bin/sh
{ echo "ARGUMENTS \$*"; cat; echo; } >>"$DIVVY_HOME/mails"
SH
chmod +x sendmail
cat >divvy.toml <<TOML
[notify]
retry_after = "1s"
sendmail = "$DIVVY_HOME/sendmail"
from = "divvy@example.org"
[notify.ops]
webhook = "http://127.0.0.1:$port/ops?key=hidden"
secret = "a secret of the administrators"
events = ["gpu_fenced", "waste"]
[waste]
grace = "0s"
idle_after = "10s"
warn_every = "10s"
TOML
divvy up --quiet --emulate 4xH100-80GB

# A webhook: its secret is shown once. After that, neither the secret nor anything equivalent is shown.
divvy notify add phone --webhook "http://127.0.0.1:$port/hook?token=hidden" --on start,end,waste >secret 2>added
grep -q '^whsec_' secret || fail "no secret: $(cat secret added)"
says "delivered: .*204" divvy notify test phone || fail "the test was not delivered: $(divvy notify test phone 2>&1)"
for shown in "$(divvy notify)" "$(divvy notify list --json)" "$(cat audit.log)" "$(cat daemon.log)"; do
  case $shown in *hidden* | *"$(cat secret)"* | *"a secret of"*) fail "a secret is shown: $shown" ;; esac
done
says "^phone .*http://127.0.0.1:$port/\.\.\." divvy notify || fail "the listing says: $(divvy notify)"

# The receiver fails twice: the same notice is sent again with the same id. All requests are signed.
echo 2 >fails
job=$(divvy submit --quiet --name rocky -- sh -c 'exit 3')
divvy wait "$job" || true
wait_for "the end that came again" has_received 'event\\":\\"fail'
wait_for "its success" says '^phone .* 2 +0 +0 ' divvy notify
# In machine-readable output times are in UTC, and missing values are empty.
listed=$(TZ=Asia/Tokyo divvy notify list --csv)
utc='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z'
grep -qE "^phone,.*,2,0,0,$utc,$utc,$" <<<"$listed" || fail "moments for programs: $listed"
grep -qE "^ops,.*,0,0,0,,,$" <<<"$listed" || fail "moments that have not been: $listed"
expect "$listed" "$(TZ=UTC divvy notify list --csv)" "the list in two time zones"
python3 "$receiver" --check got "$(cat secret)" || fail "not all is signed"
python3 - <<'PY' || fail "what came is not what happened: $(cat got)"
import json
requests = [json.loads(line) for line in open("got")]
notices = [(request["status"], json.loads(request["body"])) for request in requests]
failed = [notice["id"] for status, notice in notices if status == 500]
sent = [notice for status, notice in notices if status == 204]
assert len(failed) == 2 and len(set(failed)) == 1, failed
assert [notice["event"] for notice in sent] == ["test", "start", "fail"], sent
assert failed[0] in [notice["id"] for notice in sent]
assert sent[2]["job"]["exit_code"] == 3 and sent[2]["job"]["name"] == "rocky", sent[2]
assert sent[2]["text"].startswith("job ") and "exit code 3" in sent[2]["text"], sent[2]
PY

# The receiver is away and the daemon is killed: the next daemon delivers pending notices, each once.
end_receiver
lost=$(divvy submit --quiet --name survivor -- true)
divvy wait "$lost"
wait_for "the trouble" says '^phone .*refused' divvy notify
kill -9 "$(daemon_pid)"
wait_for "the daemon's end" sh -c '! divvy status'
divvy up --quiet --emulate 4xH100-80GB
says '^phone .* 2 +0 +2 ' divvy notify || fail "what waited is gone: $(divvy notify)"
start_receiver "$port"
wait_for "both notices" has_received survivor 2
wait_for "an empty queue" says '^phone .* 4 +0 +0 ' divvy notify
expect 2 "$(received survivor)" "notices of the job that ended while the receiver was away"

# A name that exists is not replaced silently.
code=0; divvy notify add phone --mail me@example.org 2>err || code=$?
[ $code != 0 ] || fail "it took the place of another"
grep -q "you have a receiver phone already (webhook http://127.0.0.1:$port/..., start,end,waste); choose another name, or divvy notify add --replace" err || fail "says: $(cat err)"
divvy notify add there --mail me@example.org --replace
divvy notify add there --command true --replace
divvy notify --csv | grep -q '^there,.*,command,true' || fail "not replaced: $(divvy notify --csv)"
divvy notify remove there >/dev/null
code=0; divvy notify add nowhere --webhook http:// >secret.none 2>err || code=$?
expect 2 $code "a webhook without a host"
expect "" "$(cat secret.none)" "a secret of nothing"
grep -q "the webhook URL has no host" err || fail "says: $(cat err)"

# A command: runs as its user, with the event in its environment and on its standard input.
divvy notify add cmd --command "env >'$DIVVY_HOME/env'; cat >'$DIVVY_HOME/stdin'" --on end
divvy notify add slow --command 'exit 7' --on fail
says "exit code 7" divvy notify test slow || fail "the test of a command that fails says: $(divvy notify test slow 2>&1)"
job=$(divvy submit --quiet --name told -- true)
wait_for "the command" grep -qs '"event":"end"' stdin
grep -qx "DIVVY_JOB_ID=$job" env || fail "its environment: $(cat env)"
grep -qx "DIVVY_JOB_STATE=succeeded" env || fail "its environment: $(cat env)"
divvy notify remove cmd slow

# Mail: as a job requests it, with divvy's options and with Slurm's.
ln -s "$divvy_binary" sbatch
divvy submit --quiet --name letter --notify end --notify-to ada@example.org -- true >/dev/null
printf '#!/bin/sh\n#SBATCH --mail-type=BEGIN,FAIL --mail-user=grace@example.org --job-name=slurmy\nexit 1\n' >job.sh
./sbatch job.sh >/dev/null
wait_for "three letters" sh -c '[ "$(grep -c ^To: mails)" = 3 ]'
grep -q '^To: ada@example.org' mails || fail "mails: $(cat mails)"
expect 2 "$(grep -c '^To: grace@example.org' mails)" "letters of the Slurm job"
grep -q '^ARGUMENTS -t -i -f divvy@example.org' mails || fail "mails: $(cat mails)"
grep -q '^Subject: divvy: job .*slurmy.*failed' mails || fail "mails: $(cat mails)"
says "ada@example.org" divvy notify || fail "the listing does not show addresses of jobs: $(divvy notify)"
divvy submit --notify sometimes -- true 2>refused && fail "no event was refused"
grep -q "is not an event" refused || fail "the refusal: $(cat refused)"

# Administrators are notified of GPU events.
divvy emulate xid 3 48
wait_for "the fenced GPU" has_received gpu_fenced
grep gpu_fenced got | grep -q '/ops?key=hidden' || fail "it went elsewhere: $(cat got)"

# A job leaves its GPUs idle: it is warned twice and then stopped, because it chose that. A job that did not choose it
# is named and continues.
nap='while [ ! -e '$DIVVY_HOME'/go ]; do sleep 0.1; done'
idle=$(divvy submit --quiet --gpus 1 --name forgotten --on-waste stop --notify all -- sh -c "$nap")
other=$(divvy submit --quiet --gpus 1 --name spared -- sh -c "$nap")
wait_for "the first warning" says 'is warned \(1 of 2\) that it wastes 1 GPU: .*; it is stopped in 20 s' divvy show "$idle"
says 'is stopped at .* unless it uses its GPUs \(1 of 2 warnings given\)' divvy show "$idle" || fail "show says: $(divvy show "$idle")"
says 'is stopped at .* unless it uses its GPUs' divvy why "$idle" || fail "why says: $(divvy why "$idle")"
wait_for "the second warning" says 'is warned \(2 of 2\)' divvy show "$idle"
wait_for "its end" state_is "$idle" cancelled
says 'is stopped, because it wastes 1 GPU' divvy show "$idle" || fail "its history says: $(divvy show "$idle")"
state_is "$other" running || fail "the other was not left alone: $(divvy show "$other")"
says 'is warned' divvy show "$other" && fail "the other was warned: $(divvy show "$other")"
wait_for "the notices" says '^phone .* 0 +0 ' divvy notify
python3 - "$idle" <<'PY' || fail "notices of waste: $(grep forgotten got)"
import json, sys
notices = [json.loads(json.loads(line)["body"]) for line in open("got") if "/hook" in line]
texts = [notice["text"] for notice in notices if notice["event"] == "waste" and notice["job"]["display_id"] == sys.argv[1]]
assert len(texts) == 3, texts
assert "(1 of 2)" in texts[0] and "(2 of 2)" in texts[1] and "is stopped" in texts[2], texts
PY
touch go
wait_for "an empty queue" queue_is_empty
