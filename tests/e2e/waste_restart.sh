#!/usr/bin/env bash
# The waste of a running job and the time that it has been idle continue over a restart of the daemon, also after kill
# -9. Nothing is reported twice. Time in which a job was paused is neither used nor idle, also before a restart.
. "$(dirname "$0")/lib.sh"
cat >divvy.toml <<'TOML'
[waste]
grace = "0s"
idle_after = "40s"
TOML
up() { divvy up --quiet --emulate 4xH100-80GB; }
up
job=$(divvy submit --quiet --gpus 2 --name forgotten -- sh -c 'while :; do sleep 0.1; done')
paused=$(divvy submit --quiet --gpus 1 --name paused -- sh -c 'while :; do sleep 0.1; done')
wait_for "the job" state_is "$job" running
wait_for "the other job" state_is "$paused" running
divvy pause "$paused" >/dev/null
wastes() { divvy show "$job" | grep -qE "^ *waste +does nothing with its 2 GPUs"; }
WAIT_S=90 wait_for "the finding" wastes
idle_s() { divvy show "$job" | sed -nE 's/^ *waste .*: 0% for ([0-9]+) s.*/\1/p'; }
lost() { divvy report waste --json | grep -oE '"start_time":[^}]*' | grep -oE '"lost_gpu_hours":[0-9.e-]+' | cut -d: -f2; }
before=$(lost)
since=$(idle_s)
divvy down
up
begun=$SECONDS
WAIT_S=90 wait_for "the finding after the restart" wastes
# If the idle time were lost, it would count from the restart.
idle=$(idle_s) elapsed=$((SECONDS - begun))
[ "$idle" -gt $elapsed ] || fail "idle for $idle s, $elapsed s after the restart: it was found anew"
[ "$idle" -ge "$since" ] || fail "idle for $idle s, and was for $since s before the restart"
awk -v a="$before" -v b="$(lost)" 'BEGIN { exit !(b >= a && b > 0) }' || fail "lost $before before the restart, and $(lost) after it"
kill -9 "$(divvy status --json | grep -oE '"pid":[0-9]+' | cut -d: -f2)"
up
divvy resume "$paused" >/dev/null
wait_for "the finding after the kill" wastes
divvy show "$paused" | grep -q "does nothing" && fail "the time in which it was paused counts as idle: $(divvy show "$paused")"
seen=$(divvy report waste --by job --csv | grep "^$paused," | cut -d, -f5)
awk -v hours="$seen" 'BEGIN { exit !(hours * 3600 < 40) }' || fail "it counts as seen for $seen GPU-hours, and was paused"
expect 1 "$(divvy show "$job" | grep -c "wastes 2 GPUs")" "so often its history says it"
divvy cancel "$job" "$paused" --grace 0 >/dev/null
echo "waste_restart: passed"
