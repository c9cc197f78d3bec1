#!/usr/bin/env bash
# A job of higher priority preempts a preemptible job, which later starts again under its id; also over a kill -9 of the
# daemon.
. "$(dirname "$0")/lib.sh"
cat >divvy.toml <<'TOML'
[preemption]
preempts = true
grace = "20s"
TOML
up() { divvy up --quiet --emulate 2xH100-80GB; }
up

# Records each start. After SIGTERM it ends by itself once the test allows it, like a job that saves its state.
cat >low.sh <<'SH'
trap 'while [ ! -e saved ]; do sleep 0.02; done; exit 0' TERM
echo start >>starts
while [ ! -e done ]; do sleep 0.02; done
SH
low=$(divvy submit --quiet --gpus 2 --preemptible requeue -- sh low.sh)
started() { [ "$(wc -l <starts 2>/dev/null || echo 0)" = "$1" ]; }
wait_for "the first start" started 1
kept=$(divvy submit --quiet --gpus 1 -- true)

high=$(divvy submit --quiet --gpus 1 --priority 5 -- sh -c 'while [ ! -e go ]; do sleep 0.02; done')
wait_for "the stop" state_is "$low" stopping
expect "makes room for job $high of $(id -un)" "$(field "$low" reason)" "why it is stopped"
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up
state_is "$low" stopping || fail "after a restart it is $(field "$low" state)"
touch saved
wait_for "the taker" state_is "$high" running
wait_for "its return to the queue" state_is "$low" queued
expect 1 "$(field "$low" restarts)" "restarts"
# The preempted job was submitted first, and that counts for its place; but the remaining GPUs are too few for it.
wait_for "the job behind it" state_is "$kept" succeeded

touch go
wait_for "the second start" started 2
touch done
wait_for "its end" state_is "$low" succeeded
