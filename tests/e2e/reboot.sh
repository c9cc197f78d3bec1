#!/usr/bin/env bash
# The machine goes down under running jobs: all processes are killed at once, and the kernel has another boot id. Jobs
# fail, or run again if they requested it. Ended jobs keep their result, waiting jobs still wait, and every GPU is free
# again.
. "$(dirname "$0")/lib.sh"
export DIVVY_BOOT_ID_FILE=$DIVVY_HOME/boot_id
echo "boot-1" >"$DIVVY_BOOT_ID_FILE"
up() { divvy up --quiet --emulate 4xH100-80GB; }
# Lists daemon, launcher, supervisors, guards and jobs: processes with this private home in their environment. This
# shell was started without it.
ours() {
  local process
  for process in /proc/[0-9]*; do
    if grep -qsazFx "DIVVY_HOME=$DIVVY_HOME" "$process/environ"; then echo "${process#/proc/}"; fi
  done
}
none_of_ours() { [ -z "$(ours)" ]; }
gpus_free() { divvy status --json | grep -oE '"gpus_free":[0-9]+' | cut -d: -f2; }
is_gone() { ! kill -0 "$1"; }
kill_daemon() {
  local pid
  pid=$(daemon_pid)
  kill -9 "$pid"
  wait_for "the daemon's end" is_gone "$pid"
}
up

# The job ends while no daemon runs. Its supervisor records that.
ended=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e may_end ]; do sleep 0.02; done; exit 5')
fails=$(divvy submit --quiet --gpus 1 --name fails -- sh -c 'echo run >>fails.runs; exec sleep 1000')
again=$(divvy submit --quiet --gpus 1 --requeue-after-reboot -- \
  sh -c 'echo run >>again.runs; [ "$(wc -l <again.runs)" -gt 1 ] && exit 7; exec sleep 1000')
array=$(divvy submit --quiet --gpus 1 --array 0-1%1 --requeue-after-reboot -- \
  sh -c 'echo "$DIVVY_ARRAY_INDEX" >>array.runs; [ "$(wc -l <array.runs)" -gt 1 ] && exit 0; exec sleep 1000')
after=$(divvy submit --quiet --gpus 4 --dependency "afternotok:$fails" -- sh -c 'echo "$DIVVY_GPUS" >after.gpus')
held=$(divvy submit --quiet --gpus 1 --hold -- true)
for job in "$ended" "$fails" "$again" "${array}_0"; do wait_for "job $job to run" state_is "$job" running; done
wait_for "their first words" test -s fails.runs -a -s again.runs -a -s array.runs

# The daemon is killed first, so that it does not see the end of the job.
ended_pid=$(field "$ended" pid)
kill_daemon
touch may_end
wait_for "the end that nobody heard of" is_gone "$ended_pid"
wait_for "its record" grep -q complete=1 "$DIVVY_HOME/runs/$ended"
doomed=$(ours)
[ "$(echo "$doomed" | wc -l)" -ge 6 ] || fail "three jobs and their supervisors should live, not: $doomed"
kill -9 $doomed || true
wait_for "the end of everything" none_of_ours
echo "boot-2" >"$DIVVY_BOOT_ID_FILE"
up

expect 5 "$(field "$ended" exit_code)" "the exit code of the job that ended before the reboot"
expect failed "$(field "$fails" state)" "the state of the job that ran"
expect "the node was rebooted while it ran" "$(field "$fails" reason)" "its reason"
wait_for "the end of the job that runs again" state_is "$again" failed
expect 7 "$(field "$again" exit_code)" "the exit code of its second run"
divvy show "$again" | grep -q "queued again after a reboot" || fail "its history does not tell of the reboot"
wait_for "the end of the array" state_is "$array" succeeded
expect "0 0 1" "$(sort array.runs | xargs)" "the elements that ran"
wait_for "the job that waited for the failure" state_is "$after" succeeded
expect 0,1,2,3 "$(cat after.gpus)" "its GPUs"
expect held "$(field "$held" state)" "the job that is held"
expect 1 "$(wc -l <fails.runs)" "runs of the job that did not ask for another"
wait_for "free GPUs" eval '[ "$(gpus_free)" = 4 ]'
no_records() { ! compgen -G "$DIVVY_HOME/runs/[0-9]*" >/dev/null; }
wait_for "the last run record to go" no_records

# A restart without a reboot does not count as one.
runs=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e go ]; do sleep 0.02; done; exit 3')
wait_for "a job" state_is "$runs" running
kill_daemon
up
expect running "$(field "$runs" state)" "a job's state after a restart"
touch go
wait_for "its end" state_is "$runs" failed
expect 3 "$(field "$runs" exit_code)" "its exit code"
echo "reboot: failed, requeued, ended, waiting and held jobs are as expected"
