#!/usr/bin/env bash
# Time-sharing of whole GPUs: on a full server a new job starts while a long one is parked in host memory. The long jobs
# check their memory all the time and find it intact, also through kill -9 of the daemon and of the keeper.
. "$(dirname "$0")/lib.sh"
command -v divvy-burn >/dev/null || fail "divvy-burn lies beside divvy"
cat >divvy.toml <<'TOML'
[time_sharing]
mode = "on"
trial = "25s"
TOML
up() { divvy up --quiet --emulate 2xZX9000-2GB; }
up

# reasons: the reason of each job in the queue. parked: the jobs that are parked now.
reasons() { divvy queue --json | python3 -c 'import json, sys
for job in json.load(sys.stdin): print(job["id"], job["reason"])'; }
parked() { reasons | grep " parked for job " | grep -v "returning" | cut -d" " -f1; }
one_is_parked() { [ "$(parked | wc -l)" = 1 ]; }
none_is_parked() { ! reasons | grep -q " parked for job "; }
long() { divvy submit --quiet --gpus 1 -- divvy-burn --gpu-seconds 600 --vram 512M --check; }
# brief NAME: runs until the file NAME exists.
brief() { divvy submit --quiet --gpus 1 --name "$1" -- sh -c "while [ ! -e $1 ]; do sleep 0.05; done"; }
has_run() { divvy show "$1" --json | python3 -c 'import json, sys, time
job = json.load(sys.stdin)
sys.exit(job["state"] != "running" or time.time() - job["start_time"] < 26)'; }
keeper_pid() { pgrep -f "divvy keeper --directory $runs" | head -n 1; }
kill_daemon() {
  local pid
  pid=$(daemon_pid)
  kill -9 "$pid"
  wait_for "the daemon's end" sh -c "! kill -0 $pid"
  up
}

a=$(long)
b=$(long)
WAIT_S=90 wait_for "a's trial" has_run "$a"
wait_for "b's trial" has_run "$b"
begin=$(date +%s%N)
c=$(brief c-may-end)
wait_for "a newcomer on a full server" state_is "$c" running
echo "started after $((($(date +%s%N) - begin) / 1000000)) ms"
wait_for "one of the long ones is parked" one_is_parked
first=$(parked)
expect running "$(field "$first" state)" "the state of a parked job"
divvy why "$first" | grep -q "It is parked for job $c of $(id -un)" || fail "why says: $(divvy why "$first")"
divvy why "$c" | grep -q "parked for it: job $first" || fail "why says: $(divvy why "$c")"
divvy show "$first" | grep -q "settled, parked for job $c until " || fail "show says: $(divvy show "$first")"
divvy queue | grep -q "on trial" || fail "the queue says: $(divvy queue)"
expect 1 "$(divvy queue --csv -o stage | grep -c trial)" "jobs on trial"
divvy top --once | grep -q "parked for $c" || fail "top says: $(divvy top --once)"
! divvy pause "$first" 2>message || fail "a parked job was paused"
grep -q "pause it when it has its GPUs again" message || fail "says: $(cat message)"

# The daemon is killed: all is as before.
kill_daemon
wait_for "one is still parked" one_is_parked
expect "$first" "$(parked)" "the parked job"
state_is "$c" running || fail "the newcomer was lost"
touch c-may-end
wait_for "the newcomer's end" state_is "$c" succeeded
wait_for "the parked one is back" none_is_parked

# The daemon is killed while room is made.
d=$(brief d-may-end)
kill_daemon
wait_for "the newcomer" state_is "$d" running
wait_for "one is parked" one_is_parked
# The keeper is killed while a job is parked.
kill -9 "$(keeper_pid)"
touch d-may-end
wait_for "the newcomer's end" state_is "$d" succeeded
WAIT_S=90 wait_for "the parked one is back" none_is_parked
for job in "$a" "$b"; do
  divvy signal TERM "$job" >/dev/null
  wait_for "the end of $job" state_is "$job" succeeded
  divvy logs "$job" | grep -q "errors=0" || fail "memory of $job: $(divvy logs "$job")"
done

# Jobs that keep their GPUs are not parked, and a parked job can be cancelled.
keeps=$(divvy submit --quiet --gpus 1 --no-pause -- sleep 600)
e=$(long)
WAIT_S=90 wait_for "e's trial" has_run "$e"
wait_for "the other's" has_run "$keeps"
f=$(brief f-may-end)
wait_for "the newcomer" state_is "$f" running
expect "$e" "$(parked)" "the parked job"
divvy cancel "$e" >/dev/null
# Its program waits for its GPU and cannot end by itself, so it is killed after its grace time.
WAIT_S=60 wait_for "the end of the parked one" state_is "$e" cancelled
state_is "$f" running || fail "the newcomer was lost"
state_is "$keeps" running || fail "a job lost its GPU"
