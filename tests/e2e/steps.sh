#!/usr/bin/env bash
# Tasks and steps inside a job: distinct GPUs, the queue of steps, exit codes, who may start a step, and the effects of
# kills.
. "$(dirname "$0")/lib.sh"
stays="sleep $((100000 + $$))" # Unique for this test, so that it can be found.
export LC_ALL=C
mkdir bin && divvy shims bin >/dev/null && PATH=$PWD/bin:$PATH
# Jobs write to the paths that they are given, also jobs of another user.
chmod 711 "$DIVVY_HOME"
divvy up --emulate 8xH100-80GB >/dev/null

# batch NAME: submits a job with all GPUs that runs the script on standard input; its output is NAME.out.
batch() {
  local name=$1
  shift
  { echo "#!/bin/bash"; cat; } >"$name.sbatch"
  sbatch --parsable --gres=gpu:8 -o "$name.out" "$@" "$name.sbatch"
}
run_batch() {
  local code=0
  batch "$@" -W >/dev/null || code=$?
  return $code
}
out() { cat "$1.out"; }
is_there() { [ -e "$1" ]; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
lines_are() { [ "$(wc -l <"$2" 2>/dev/null)" = "$1" ]; }

# --- Tasks of a job -------------------------------------------------------------------------------------------------
expect "0/4 3 1/4 2 2/4 1 3/4 0" \
  "$(divvy run --tasks 4 --gpus-per-task 1 -- sh -c 'echo $RANK/$WORLD_SIZE $((3 - ${CUDA_VISIBLE_DEVICES%%,*}))' | sort | xargs)" \
  "each task has its own GPU first"
expect "4 4 4 4" "$(divvy run --tasks 4 --gpus-per-task 1 -- sh -c 'echo $CUDA_VISIBLE_DEVICES' | tr -d , | awk '{ print length }' | xargs)" \
  "the job's other GPUs stay in reach"
expect "0 1" "$(divvy run --tasks 2 --gpus-per-task 1 --gpu-bind single -- sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort | xargs)" "bound to its own"
expect "0:0,1 1:0,1" "$(divvy run --tasks 2 --gpus 2 -- sh -c 'echo $LOCAL_RANK:$CUDA_VISIBLE_DEVICES' | sort | xargs)" "as torchrun has it"
code=0; divvy run --tasks 3 -- sh -c 'test $RANK = 1 && exit 7; exec sleep 300' 2>/dev/null || code=$?
expect 7 $code "the first failing task ends the job, with its code"
code=0; divvy run --tasks 3 --no-kill -- sh -c 'test $RANK = 1 && exit 7; touch kept.$RANK' 2>/dev/null || code=$?
expect "7 yes" "$code $(is_there kept.0 && is_there kept.2 && echo yes)" "with --no-kill the others go on"
divvy submit --wait --tasks 2 -o 'task-%t.txt' -- sh -c 'echo rank $RANK' >/dev/null
expect "rank 0 rank 1" "$(cat task-0.txt task-1.txt | xargs)" "a file for each task"
expect "0: a 1: a" "$(divvy run --tasks 2 --label-output -- echo a | sort | xargs)" "labelled lines"
code=0; divvy submit --tasks 3 --gpus-per-task 2 --gpus 4 -- true 2>err.txt || code=$?
expect "2 divvy: --gpus 4 is too few for 3 tasks with 2 each; omit --gpus, or write fewer --tasks" "$code $(cat err.txt)" "too few GPUs"

# A script runs once; its srun lines start tasks.
run_batch once -n 3 <<'S'
echo once
srun sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS pid $(test $SLURM_TASK_PID = $$ && echo right)'
S
expect "0 of 3 pid right 1 of 3 pid right 2 of 3 pid right once" "$(out once | sort | xargs)" "sbatch and srun"

# --- Steps ----------------------------------------------------------------------------------------------------------
run_batch distinct <<'S'
for i in 1 2 3 4 5 6 7 8; do
  srun --exact -n1 --gpus-per-task=1 sh -c 'echo $SLURM_STEP_GPUS; until [ -e go ]; do sleep 0.02; done' &
done
until [ "$(wc -l <distinct.out)" = 8 ]; do sleep 0.02; done
srun -I --gpus=1 true; echo immediate $?
srun --overlap --gpus=1 true; echo overlap $?
srun --gpus=1 sh -c 'test -e go && echo waited' &
until grep -q "temporarily disabled" distinct.out; do sleep 0.02; done
touch go
wait
S
expect "0 1 2 3 4 5 6 7" "$(out distinct | grep -E '^[0-7]$' | sort | xargs)" "eight steps with GPUs of their own"
expect "immediate 1 overlap 0 waited" "$(out distinct | grep -E '^(immediate|overlap|waited)' | xargs)" "who waits, who does not"
rm go

run_batch codes <<'S'
srun -n3 sh -c 'exit $SLURM_PROCID'; echo $?
srun sh -c 'kill -9 $$'; echo $?
srun no-such-program; echo $?
srun -K -n2 sh -c 'test $SLURM_PROCID = 0 && exit 3; exec sleep 300'; echo $?
srun -W1 -n2 sh -c 'test $SLURM_PROCID = 0 || exec sleep 300'; echo $?
srun -Q sh -c 'exit 5' & wait $!; echo $?
S
expect "2 137 127 143 143 5" "$(out codes | grep -E '^[0-9]+$' | xargs)" "exit codes"

# Input and output of a step; labels; files; a terminal.
run_batch streams <<'S'
echo in | srun cat
srun -n2 -l echo x
srun -n2 -o 'f-%J-%2t' sh -c 'echo $SLURM_PROCID'
cat f-*.*-00 f-*.*-01
printf '0 echo first\n* echo rest %%t %%o\n' >multi
srun -n3 --multi-prog multi
srun --pty tty </dev/null
head -c 3000000 /dev/zero | srun cat | wc -c
umask 027; srun sh -c umask
cd /tmp; srun pwd
S
expect "/tmp 0 0027 0: x 1 1: x 3000000 first in pts rest 1 0 rest 2 1" \
  "$(out streams | tr -d '\r' | sed 's,/dev/pts/.*,pts,' | sort | xargs)" "streams"

# --- Listings, and ends of steps --------------------------------------------------------------------------------------
job=$(batch shown <<'S'
srun -n2 --gpus-per-task=1 sh -c 'echo $$ >>pids; exec sleep 300'
echo ended $?
srun sh -c 'echo after'
until [ -e go ]; do sleep 0.02; done
S
)
wait_for "two tasks" lines_are 2 pids
divvy show "$job" | grep -q "0  running  2 tasks  GPUs 0,1 .*sleep 300" || fail "divvy show tells the step"
divvy show "$job" | grep -q "rank 1  GPU 1" || fail "divvy show maps ranks"
expect "$job.0 $job.batch" "$(squeue -s -h -o %i -j "$job" | xargs)" "squeue -s"
expect 1 "$(scancel "$job.7" 2>/dev/null; echo $?)" "a step that is not there"
scancel "$job.0" || fail "scancel of a step"
wait_for "the step's end" grep -q "ended 143" shown.out
wait_for "the next step" grep -q after shown.out
wait_for "ended steps in divvy show" sh -c "divvy show $job | grep -q '1  ended, exit code 0'"
touch go; wait_for "the job's end" state_is "$job" succeeded
rm -f go pids

# The daemon is killed under a step. The step continues, and new ones can start.
job=$(batch orphan <<'S'
srun sh -c 'echo $$ >pid; until [ -e go ]; do sleep 0.02; done; exit 6'; echo first $?
srun sh -c 'echo second; exit 4'
S
)
wait_for "the step" is_there pid
kill -9 "$(daemon_pid)"
touch go
wait_for "a step without a daemon" grep -q second orphan.out
expect "first 6 second" "$(xargs <orphan.out | sed 's/srun: error: [^ ]*: task 0: Exited with exit code [0-9]//g' | xargs)" "steps without a daemon"
divvy up --emulate 8xH100-80GB >/dev/null
wait_for "the job's end" state_is "$job" failed
expect 4 "$(field "$job" exit_code)" "the exit code from a step without a daemon"
rm -f go pid

# Cancelling the job ends its steps, even if they ignore signals. No process is left.
job=$(batch cancelled <<'S'
srun -n2 sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 1; done' &
srun sh -c 'echo $$ >>pids; exec sleep 300' &
wait
S
)
wait_for "three tasks" lines_are 3 pids
divvy cancel "$job" --grace 1 >/dev/null
wait_for "the job's end" state_is "$job" cancelled
for pid in $(cat pids); do is_gone "$pid" || fail "task $pid outlived its job"; done
rm -f pids
# The same when the job ends by itself.
run_batch leftover <<'S'
srun sh -c 'echo $$ >pid; exec sleep 300' &
until [ -e pid ]; do sleep 0.02; done
S
is_gone "$(cat pid)" || fail "a step outlived its job"
rm -f pid

# kill -9 of srun ends its step. kill -9 of the step process ends its steps, and the next srun starts a new one.
run_batch kills <<'S'
srun sh -c 'echo $$ >pid; exec sleep 300' & srun=$!
until [ -s pid ]; do sleep 0.02; done
kill -9 $srun
while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.02; done
echo step gone; rm pid
srun sh -c 'echo $$ $PPID >pid; exec sleep 300' & srun=$!
until [ -s pid ]; do sleep 0.02; done
read -r task server <pid
kill -9 "$server"
wait $srun; echo srun $?
while kill -0 "$task" 2>/dev/null; do sleep 0.02; done
srun sh -c 'echo step $SLURM_STEP_ID'
S
expect "step gone srun 1 step 2" "$(out kills | grep -E '^(step|srun [0-9])' | xargs)" "kills"
rm -f pid

# Ctrl-C: the first one warns, the second one ends the step.
export -f interrupt_twice
run_batch interrupt <<'S'
srun sh -c 'echo $$ >pid; exec sleep 300' & srun=$!
until [ -s pid ]; do sleep 0.02; done
interrupt_twice $srun interrupt.out
wait $srun; echo code $?
S
grep -q "task 0: running" interrupt.out || fail "Ctrl-C tells what runs"
expect "code 130" "$(grep '^code' interrupt.out)" "the second Ctrl-C"
rm -f pid

# The shell of salloc has steps too, and so does a native job. A job inside a job must be requested.
expect "0 1" "$(salloc -Q -n2 --gres=gpu:2 sh -c 'srun sh -c "echo \$SLURM_PROCID"' 2>/dev/null | sort | xargs)" "srun inside salloc"
expect "step 0 of 2" "$(divvy run --gpus 2 -- sh -c 'divvy run --gpus 1 -- sh -c "echo step \$DIVVY_STEP of \$DIVVY_GPU_COUNT"')" "divvy run inside a job"
code=0; divvy run --gpus 1 -- divvy run --gpus 2 -- true 2>err.txt || code=$?
expect 1 $code "a step with more GPUs than the job"
grep -q "to start a separate job, write divvy run --as-job" err.txt || fail "what to do instead: $(cat err.txt)"
expect 1 "$(divvy run -- sh -c 'divvy run --as-job --gpus 1 -- sh -c "echo \$DIVVY_GPU_COUNT"')" "a job inside a job"

# From outside, in a job that has a step process. Cores are counted only for steps that request them.
job=$(batch outside --ntasks=2 -c 1 <<'S'
for i in 1 2; do srun --exact -n1 -c1 sh -c 'echo up >>ups; until [ -e go ]; do sleep 0.02; done' & done
until [ "$(cat ups 2>/dev/null | wc -l)" = 2 ]; do sleep 0.02; done
srun --exact -n1 -c1 --immediate true; echo third $?
srun --exact -n1 --gpus-per-task=1 true; echo uncounted $?
wait
S
)
wait_for "two steps with a core each" lines_are 2 ups
wait_for "the others" grep -q uncounted outside.out
expect "third 1 uncounted 0" "$(grep -E '^(third|uncounted)' outside.out | xargs)" "cores"
expect "$job 0,1,2,3,4,5,6,7" "$(srun --jobid="$job" --overlap -n1 sh -c 'echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES')" "a step from outside"
code=0; srun --jobid=999 -n1 true 2>refusal || code=$?
expect 1 $code "a step of no job"
grep -q 'there is no job 999' refusal || fail "srun --jobid of no job says: $(cat refusal)"
quiet=$(divvy submit --quiet -- sh -c 'until [ -e go ]; do sleep 0.02; done')
wait_for "a job without steps" state_is "$quiet" running
expect "$quiet 0" "$(srun --jobid="$quiet" -n1 sh -c 'echo $DIVVY_JOB_ID $SLURM_STEP_ID' 2>refusal)" \
  "a step of a job that had started none itself: $(cat refusal)"
code=0; srun --jobid="$quiet" -n1 sh -c 'exit 7' 2>refusal || code=$?
expect 7 $code "its exit code"
# A step sees the private /tmp of its job, and ends with the job.
own=$(divvy submit --quiet --private-tmp -- sh -c 'touch /tmp/divvy-mine-'$$'; until [ -e go ]; do sleep 0.02; done')
wait_for "a job with a /tmp of its own" state_is "$own" running
wait_for "its file" sh -c "srun --jobid=$own -n1 test -e /tmp/divvy-mine-$$"
[ ! -e /tmp/divvy-mine-$$ ] || fail "its /tmp is everybody's"
srun --jobid="$own" -n1 $stays 2>/dev/null &
sleeper=$!
wait_for "a step that stays" pgrep -f "^$stays"
touch go; wait_for "the job's end" state_is "$job" succeeded
wait_for "the end of the job without steps" state_is "$quiet" succeeded
wait_for "the end of the job with a /tmp of its own" state_is "$own" succeeded
wait $sleeper && fail "a step outlived its job" || true
! pgrep -f "$stays" >/dev/null || fail "a step's task outlived its job"
code=0; srun --jobid="$quiet" -n1 true 2>refusal || code=$?
grep -q "job $quiet has ended" refusal || fail "srun --jobid of an ended job says: $(cat refusal)"
rm -f go ups

# Requests of another user's processes are refused.
if [ "$(id -u)" = 0 ] && id nobody >/dev/null 2>&1 && command -v setpriv >/dev/null; then
  job=$(batch private <<'S'
srun true
touch ready
until [ -e go ]; do sleep 0.02; done
S
  )
  wait_for "the step process" is_there ready
  chmod 755 runs/steps-0; chmod 777 "runs/steps-0/$job.sock"
  code=0
  setpriv --reuid=nobody --clear-groups env DIVVY_JOB_ID="$job" SLURM_JOB_ID="$job" DIVVY_STEPS="$DIVVY_HOME/runs/steps-0/$job" \
    timeout 60 "$PWD/bin/srun" sh -c 'id -u >intruder' >/dev/null 2>&1 || code=$?
  expect 1 $code "a stranger's step"
  ! is_there intruder || fail "a stranger's step ran"
  touch go; wait_for "the job's end" state_is "$job" succeeded
fi
wait_for "an empty queue" queue_is_empty
expect "" "$(find runs -name '*.sock' -path '*steps*')" "what is left in the run directory"
