#!/usr/bin/env bash
# Actions on jobs that leave their GPUs idle. A GPU fraction is parked after two warnings and wakes at its next CUDA
# call. A job on another node is warned, reported and stopped like a local one. Warnings survive kill -9 of the daemon.
receiver="$(cd "$(dirname "$0")" && pwd)/receiver.py"
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed (apt-get install python3)"
command -v divvy-burn >/dev/null || fail "divvy-burn lies beside divvy"
cat >divvy.toml <<'TOML'
[waste]
grace = "0s"
idle_after = "10s"
warn_every = "10s"
action = "park"
TOML
up_listening
home=$DIVVY_HOME
with_machines
python3 "$receiver" "$home/port" "$home/got" "$home/fails" 2>receiver.log &
receiver_pid=$!
trap 'kill $receiver_pid; clean_up; end_agents; rm -rf "$machines"' EXIT
wait_for "the receiver" test -s port
says() { # says PATTERN COMMAND...
  local pattern=$1
  shift
  "$@" 2>&1 | grep -qE -- "$pattern"
}
# wait_long WHAT COMMAND...: waits longer than wait_for, because two warnings and the action take longer.
wait_long() { WAIT_S=150 wait_for "$@"; }
tenant_is() { # tenant_is JOB STATE
  divvy gpus --json | python3 -c 'import json, sys
sys.exit(not any(one["job"] == int(sys.argv[1]) and one["state"] == sys.argv[2] for gpu in json.load(sys.stdin) for one in gpu["tenants"]))' "$1" "$2"
}
divvy notify add phone --webhook "http://127.0.0.1:$(cat port)/hook" --on waste >/dev/null 2>&1

# On another node: whole GPUs are not parked, but this job chose to be stopped. Here: a fraction that is busy at first.
divvy token create --node >n1.token 2>/dev/null
on n1 agent --join-file "$home/n1.token" --name n1 --emulate 2xA100-40GB --detach --quiet || fail "n1 did not join"
wait_for "n1" node_is n1 up
far=$(divvy submit --quiet --gpus 2 --gpu-type A100 --name far --on-waste stop --notify waste --notify-to phone -- sh -c 'while :; do sleep 0.1; done')
wait_for "the far job" state_is "$far" running
says '^on waste +stop$' divvy show "$far" || fail "show says: $(divvy show "$far")"
says '^notify +waste to phone$' divvy show "$far" || fail "show says: $(divvy show "$far")"
part=$(divvy submit --quiet --gpus 0.5 --gpu-type H100 --name part -- divvy-burn --gpu-seconds 600 --vram 1G --check --idle-after 0.5 --wake-after 110)
wait_for "the part" state_is "$part" running

wait_long "the first warning of the far job" says 'is warned \(1 of 2\) that it wastes 2 GPUs: .*; it is stopped in 20 s' divvy show "$far"
wait_long "the first warning of the part" says 'is warned \(1 of 2\) that it wastes 0.5 GPUs: .*; it is parked in 20 s' divvy show "$part"

# A restarted daemon continues after the last warning: no first warning is sent twice.
kill -9 "$(daemon_pid)"
wait_for "the daemon's end" sh -c '! divvy status'
divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port"
wait_for "n1" node_is n1 up
wait_long "the far job's end" state_is "$far" cancelled
expect 1 "$(divvy show "$far" | grep -c 'is warned (1 of 2)')" "first warnings of the far job"
expect 1 "$(divvy show "$far" | grep -c 'is warned (2 of 2)')" "second warnings of the far job"
says 'is stopped, because it wastes 2 GPUs' divvy show "$far" || fail "its history: $(divvy show "$far")"

wait_long "the part to be parked" tenant_is "$part" parked
state_is "$part" running || fail "the part was ended: $(divvy show "$part")"
expect 1 "$(divvy show "$part" | grep -c 'is warned (1 of 2)')" "first warnings of the part"
says 'is parked, because it wastes 0.5 GPUs' divvy show "$part" || fail "its history: $(divvy show "$part")"
is_back() { divvy logs "$part" | grep -q "awake" && ! tenant_is "$part" parked; }
wait_long "its next call to wake it" is_back
state_is "$part" running || fail "it did not live through it: $(divvy show "$part")"

# Both warnings and the action are reported in text.
told() { python3 - "$@" <<'PY'
import json, sys
notices = [json.loads(json.loads(line)["body"]) for line in open("got")]
texts = [one["text"] for one in notices if one["event"] == "waste" and one["job"]["display_id"] == sys.argv[1]]
texts = list(dict.fromkeys(texts))  # A notice in flight when the daemon was killed is sent again.
words = ["(1 of 2)", "(2 of 2)", sys.argv[2]]
nodes = {one["job"]["node"] for one in notices if one["job"]["display_id"] == sys.argv[1]}
if len(sys.argv) > 3 and nodes != {sys.argv[3]}: sys.exit(f"on {nodes}")
sys.exit(len(texts) != 3 or any(word not in text for word, text in zip(words, texts)))
PY
}
wait_for "what is told of the far job" told "$far" "is stopped" n1
wait_for "what is told of the part" told "$part" "is parked" || fail "told: $(cat got)"
divvy cancel --grace 0 "$part" >/dev/null
