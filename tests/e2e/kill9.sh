#!/usr/bin/env bash
# kill -9 of the daemon while clients submit. Acknowledged jobs are known afterwards and end with their true exit code;
# running jobs are not affected. ROUNDS: 3; with DIVVY_LONG 50.
. "$(dirname "$0")/lib.sh"
rounds=${ROUNDS:-$([ -n "${DIVVY_LONG:-}" ] && echo 50 || echo 3)}
divvy up --quiet --emulate 8xH100-80GB
keeps=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e go ]; do sleep 0.05; done; exit 9')
wait_for "the long job" state_is "$keeps" running
pid=$(field "$keeps" pid)
count_acknowledged() { cat ids.* 2>/dev/null | wc -l; }
some_more() { [ "$(count_acknowledged)" -gt "$before" ]; }
for round in $(seq "$rounds"); do
  before=$(count_acknowledged)
  for client in 1 2 3; do
    (for _ in $(seq 25); do divvy submit --quiet --gpus 1 -- sh -c 'echo "$DIVVY_GPUS $DIVVY_JOB_ID" >>ran; exit 7' 2>/dev/null || exit 0; done >>"ids.$client") &
    clients="${clients:-} $!"
  done
  wait_for "an acknowledged job in round $round" some_more
  sleep "0.$((RANDOM % 3 + 1))"
  kill -9 "$(daemon_pid)" 2>/dev/null || true
  wait $clients || true
  clients=
  divvy up --quiet --emulate 8xH100-80GB || fail "no restart in round $round"
done
kill -0 "$pid" || fail "the running job did not outlive the daemon"
touch go
wait_for "an empty queue" queue_is_empty
expect 9 "$(field "$keeps" exit_code)" "the exit code of the job that outlived $rounds daemons"
cat ids.* | grep -xE '[0-9]+' | sort -n >acknowledged
[ -s acknowledged ] || fail "nothing was acknowledged"
uniq -d acknowledged | grep -q . && fail "an id was given out twice"
divvy queue --all --csv --no-header -o id,exit --limit 0 | sort -n >known
while read -r id; do grep -qx "$id,7" known || fail "acknowledged job $id: $(grep "^$id," known || echo unknown)"; done <acknowledged
awk '{ print $2 }' ran | sort | uniq -d | grep -q . && fail "a job ran twice"
echo "kill9: $rounds rounds, $(wc -l <acknowledged) acknowledged, none lost, none wrong"
