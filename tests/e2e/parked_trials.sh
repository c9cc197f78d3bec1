#!/usr/bin/env bash
# Trials that are parked while they are paused (--park-losers), on two emulated GPUs: others have their GPUs meanwhile,
# and a promoted trial continues as the same process with its GPU memory intact, also through kill -9 of the daemon. A
# trial that cannot be parked is stopped and starts again.
. "$(dirname "$0")/lib.sh"
command -v divvy-burn >/dev/null || fail "divvy-burn must be in the folder of divvy"
up() { divvy up --quiet --emulate 2xZX9000-2GB; }
up

# A trial holds GPU memory that it checks all the time. After each epoch it waits for the file go-JOB.
cat >train.sh <<'SH'
id=$DIVVY_JOB_ID
echo "$id $$" >>starts
divvy-burn --gpu-seconds 600 --vram 256M --check >"burn-$id" &
burn=$!
echo "$burn" >>burns
# The report of the third trial promotes the best one.
[ "$1" != 3 ] || until [ -e promotes ]; do sleep 0.05; done
for epoch in 1 2 3; do
  until divvy metrics --add "epoch=$epoch" "loss=$1" 2>"errors-$id" || ! grep -q 'divvy up' "errors-$id"; do sleep 0.1; done
  echo "$id $$ $epoch" >>epochs
  until [ -e "go-$id" ]; do sleep 0.05; done
done
kill -TERM "$burn"
wait "$burn"
SH
sweep_is() { divvy sweep show "$1" --json | python3 -c "import json,sys; sys.exit(str(json.load(sys.stdin)['$2']) != '$3')"; }
trial_is() { divvy sweep show "$1" --json | python3 -c "import json,sys; sys.exit([t['state'] for t in json.load(sys.stdin)['list'] if t['trial'] == $2] != ['$3'])"; }
is_away() { divvy show "$1" | grep -q "has left GPU"; }
kill_daemon() {
  local pid
  pid=$(daemon_pid)
  kill -9 "$pid"
  wait_for "the daemon's end" sh -c "! kill -0 $pid"
  up
}

sweep=$(divvy sweep run --quiet --gpus 1 --param q=1,2,3 --metric loss --asha-promotion 1:3:3 --park-losers -- \
  sh train.sh '{q}')
best=$((sweep + 1)) second=$((sweep + 2)) last=$((sweep + 3))
# Two trials have both GPUs until they are parked. So the third one runs on the GPU of a parked one.
WAIT_S=60 wait_for "a parked trial" sweep_is "$sweep" parked 2
wait_for "the best trial has left its GPU" is_away "$best"
wait_for "the third trial" grep -q "^$last " starts
divvy why "$best" | grep -q "It is parked by its sweep for .*; it returns when it is promoted" ||
  fail "why says: $(divvy why "$best")"
divvy sweep show "$sweep" | grep -q "2 parked" || fail "show says: $(divvy sweep show "$sweep")"
# The report of the third one promotes the best. The daemon is killed before and after that.
kill_daemon
touch promotes
WAIT_S=60 wait_for "the report of the third trial" grep -q "^$last .* 1$" epochs
kill_daemon
WAIT_S=60 wait_for "the promotion" trial_is "$sweep" 0 running
touch "go-$best"
WAIT_S=60 wait_for "the end of the best trial" trial_is "$sweep" 0 succeeded
# Nothing can promote the others, so they end with the sweep, although they are parked.
WAIT_S=90 wait_for "the end of the sweep" sweep_is "$sweep" state ended
state_is "$sweep" succeeded || fail "the array of the sweep: $(divvy show "$sweep" | head -3)"
expect 3 "$(wc -l <starts)" "starts of three trials"
expect "1 2 3" "$(grep "^$best " epochs | cut -d' ' -f3 | xargs)" "epochs of the promoted trial"
expect "$(grep "^$best " starts | cut -d' ' -f2)" "$(grep "^$best " epochs | cut -d' ' -f2 | sort -u)" "its process"
grep -q "errors=0" "burn-$best" || fail "its memory: $(cat "burn-$best")"
for trial in "$second" "$last"; do
  divvy show "$trial" | grep -q "was never promoted beyond rung 1" || fail "$trial: $(divvy show "$trial")"
done
none_is_left() {
  local pid
  for pid in $(cat burns); do ! kill -0 "$pid" || return 1; done
}
wait_for "the end of all programs" none_is_left

# The host has no room for a parked trial beside another one: it is stopped and starts again.
rm -f starts epochs promotes burn-* go-*
memory=$(awk '/^MemTotal/ { print int($2 * 0.6 / 1024) "M" }' /proc/meminfo)
sweep=$(divvy sweep run --quiet --gpus 1 --memory "$memory" --param q=1,2,3 --metric loss --asha-promotion 1:3:3 \
  --park-losers -- sh train.sh '{q}')
best=$((sweep + 1))
WAIT_S=60 wait_for "a trial that is not parked" trial_is "$sweep" 0 paused
divvy sweep show "$sweep" --json | grep -q "it is not parked: its GPUs' memory of 2.0 GiB does not fit" ||
  fail "show says: $(divvy sweep show "$sweep")"
touch promotes "go-$best"
WAIT_S=90 wait_for "the end of the sweep" sweep_is "$sweep" state ended
grep -q "^$best .* 3$" epochs || fail "the best trial did not end: $(cat epochs)"
expect 2 "$(grep -c "^$best " starts)" "starts of the best trial"

refused() {
  local words=$1
  shift
  ! divvy sweep run "$@" >message 2>&1 || fail "took: $*"
  expect 1 "$(wc -l <message)" "lines about: $*"
  grep -qF -- "$words" message || fail "$* says: $(cat message)"
}
refused "type asha stops losers for good" --gpus 1 --param q=1,2 --metric loss --asha 1:9 --park-losers -- true
refused "a fixed number of whole GPUs on one node" --gpus 0.5 --param q=1,2 --metric loss --asha-promotion 1:9 \
  --park-losers -- true
echo "parked trials: 2 kills; the promoted one continued as the same process"
