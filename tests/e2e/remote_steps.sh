#!/usr/bin/env bash
# Steps of a job on another node, started from a login node: srun --jobid with its streams, signals, exit codes and a
# terminal, also in a job that has started no step itself; scancel JOB.STEP.
. "$(dirname "$0")/lib.sh"
stays="sleep $((100000 + $$))" # Unique for this test, so that it can be found.

printf '[controller]\nlost_after = "3s"\n' >divvy.toml
up_listening
with_machines
mkdir bin && divvy shims bin >/dev/null
PATH=$PWD/bin:$PATH
far="--gpus 2 --gpu-type a100"
divvy token create --node --uses 2 >token 2>/dev/null
on n1 agent --join-file "$DIVVY_HOME/token" --name n1 --emulate 4xA100-40GB --detach --quiet || fail "n1 did not join"

on n2 agent --join-file "$DIVVY_HOME/token" --name n2 --emulate 1xA100-40GB --detach --quiet || fail "n2 did not join"

# GPUs of a whole job that its nodes cannot divide evenly.
where() { sort | cut -d' ' -f2- | xargs; }
odd=$(sbatch --parsable --gpus=a100:3 --nodes=2 -o odd --wrap \
  'srun -l sh -c "echo \$SLURMD_NODENAME \$SLURM_GPUS_ON_NODE \$CUDA_VISIBLE_DEVICES"')
wait_for "its end" state_is "$odd" succeeded
expect "n1 2 0,1 n2 1 0" "$(where <odd)" "three GPUs on two nodes"
expect "2x" "$(scontrol show job "$odd" | sed -n 's/.*NumNodes=\([0-9]*\) .*/\1x/p')" "its nodes"
scontrol show job "$odd" | grep -q 'TRES=.*gres/gpu=3' || fail "its GPUs: $(scontrol show job "$odd")"
# It keeps them when the daemon is killed, and so does its successor, which waits. Its steps share them out as well.
odd=$(sbatch --parsable --gpus=a100:3 --nodes=2 --wrap "until [ -e $machines/odd ]; do sleep 0.02; done")
wait_for "its start" state_is "$odd" running
after=$(sbatch --parsable -d "afterok:$odd" --gpus=a100:3 --nodes=2 -o after --wrap \
  'srun -l sh -c "echo \$SLURMD_NODENAME \$SLURM_GPUS_ON_NODE"')
daemon=$(daemon_pid)
kill -9 "$daemon"
wait_for "the daemon's end" sh -c "! grep -qs '^State:[[:space:]]*[^Z[:space:]]' /proc/$daemon/status"
up_listening "$port"
for agent in n1 n2; do wait_for "$agent's return" node_is $agent up; done
expect running "$(field "$odd" state)" "the job after the restart"
expect "n1 2 n2 1" "$(srun --jobid="$odd" --overlap --gpus=3 -l \
  sh -c 'echo $SLURMD_NODENAME $(echo $CUDA_VISIBLE_DEVICES | tr , "\n" | grep -c .)' </dev/null | where)" "a step with all of them"
[[ $(divvy show "$after" --json) == *'"short_nodes":1'* ]] || fail "its successor's request: $(divvy show "$after" --json)"
full=$(divvy submit --quiet --gpus 3 --gpu-type a100 -- true)
divvy why "$full" | grep -q "needs 3 GPUs of type a100 on one node, 2 of these 4 are free" || fail "what it leaves free: $(divvy why "$full")"
touch "$machines/odd"
wait_for "its successor's end" state_is "$after" succeeded
expect "n1 2 n2 1" "$(where <after)" "its successor"
wait_for "the end of a job that waited" state_is "$full" succeeded
sbatch --gpus=a100:5 --nodes=2 --wrap true 2>told && fail "five GPUs on nodes with four and one" || true
grep -q "2 nodes with 2 GPUs" told || fail "five GPUs on nodes with four and one: $(cat told)"

id=$(divvy submit --quiet --nodelist n1 $far -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done")
wait_for "its start" state_is "$id" running
expect n1 "$(field "$id" node)" "its machine"
expect "$id 0 n1" "$(srun --jobid="$id" -n1 sh -c 'echo $DIVVY_JOB_ID $SLURM_STEP_ID $DIVVY_NODE' </dev/null)" \
  "a step of a job elsewhere that has started none itself"
expect "$id n1" "$(srun --jobid="$id" --overlap -n1 sh -c 'echo $DIVVY_JOB_ID $DIVVY_NODE' </dev/null)" "one that overlaps"
expect "$id n1 n1 n1" "$(SLURMD_NODENAME=n2 srun --jobid="$id" --overlap -n1 \
  sh -c 'echo $SLURM_JOB_ID $SLURM_JOB_NODELIST $SLURMD_NODENAME $SLURM_STEP_NODELIST' </dev/null)" "where it is in Slurm's words"
for where in "-w n2" "-N2" "-x n1" "-r 1"; do
  srun --jobid="$id" --overlap $where true </dev/null 2>told && fail "a step of a job on n1 with $where" || true
  grep -q "Unable to create step for job $id: it\|the step begins at node 1\|'n2' is not one of the job's nodes: n1" told || fail "$where is refused with: $(cat told)"
done
expect "0 1" "$(srun --jobid="$id" --overlap --ntasks=2 sh -c 'echo $SLURM_PROCID' </dev/null | sort | xargs)" "two tasks"
expect "1 0: labelled" "$(srun --jobid="$id" --overlap -l -n1 sh -c 'echo labelled' </dev/null | grep -c . | xargs) \
$(srun --jobid="$id" --overlap -l -n1 sh -c 'echo labelled' </dev/null)" "a label"

# Bytes in both directions, separate errors and the exit code; the environment and directory of the caller.
head -c 3000000 /dev/urandom >in
MARK=carried srun --jobid="$id" --overlap -n1 sh -c 'cat; echo "$MARK $PWD" >&2; exit 7' <in >out 2>err && code=0 || code=$?
expect 7 $code "the exit code: $(cat err)"
cmp in out || fail "what went through it is another"
grep -qx "carried $PWD" err || fail "its errors: $(cat err)"
expect y "$(srun --jobid="$id" --overlap -n1 yes 2>/dev/null </dev/null | head -n 1)" "the first line of many"
expect "" "$(srun --jobid="$id" --overlap -n1 true </dev/null)" "nothing"
mkdir elsewhere
if unshare -m true 2>/dev/null; then
  unshare -m sh -c "mount -t tmpfs none elsewhere && mkdir elsewhere/only && cd elsewhere/only && srun --jobid=$id --overlap -n1 pwd </dev/null" >place 2>told
  expect "$DIVVY_HOME" "$(cat place)" "the directory of a step whose caller's is not there"
  grep -q "srun: cannot enter $DIVVY_HOME/elsewhere/only on " told || fail "it says: $(cat told)"
fi

# A signal to the caller is forwarded to the step. If the caller is killed, its step ends too.
srun --jobid="$id" --overlap -n1 sh -c 'trap "echo caught; exit 9" TERM; echo ready; while :; do sleep 0.02; done' >trapped </dev/null &
runner=$!
wait_for "its trap" grep -q ready trapped
kill -TERM $runner
wait $runner && code=0 || code=$?
expect 9 $code "the exit code of what caught a signal"
grep -q caught trapped || fail "it did not hear it: $(cat trapped)"
srun --jobid="$id" --overlap -n1 $stays </dev/null &
runner=$!
wait_for "a step that stays" pgrep -f "^$stays"
kill -9 $runner
wait_for "its end" sh -c "! pgrep -f '^$stays'"
wait $runner 2>/dev/null || true

# scancel of one step by its number, and with a given signal. The job continues.
srun --jobid="$id" --overlap -n1 sh -c 'trap "echo usr1; exit 3" USR1; echo ready; while :; do sleep 0.02; done' >signalled </dev/null &
runner=$!
wait_for "its trap" grep -q ready signalled
step=$(divvy show "$id" --json | grep -o '"number":[0-9]*,' | tail -n 1 | tr -dc 0-9)
[ -n "$step" ] || step=$(squeue -s -h -o %i | tail -n 1 | cut -d. -f2)
scancel -s USR1 "$id.$step" || fail "scancel -s: $?"
wait $runner && code=0 || code=$?
expect 3 $code "the exit code of the step that was signalled: $(cat signalled)"
srun --jobid="$id" --overlap -n1 sh -c "echo ready; $stays" >ended 2>/dev/null </dev/null &
runner=$!
wait_for "another" grep -q ready ended
scancel "$id.$((step + 1))" || fail "scancel of a step: $?"
wait $runner && fail "a step that was cancelled ended with 0" || true
expect running "$(field "$id" state)" "the job of the step"
scancel "$id.999" 2>told && fail "a step that is not there was cancelled" || true
grep -q "Invalid job step id specified" told || fail "scancel of no step says: $(cat told)"

# From inside a job on a third node, and from a machine that is logged in to the controller.
other=$(divvy submit --quiet --gpus 1 --nodelist n2 -- sh -c "PATH=$PWD/bin:\$PATH srun --jobid=$id --overlap -n1 sh -c 'echo inside \$DIVVY_JOB_ID; exit 4'")
divvy wait "$other" >/dev/null 2>&1 && code=0 || code=$?
expect 4 $code "the exit code of a step that another job started: $(divvy logs "$other")"
expect "inside $id" "$(divvy logs "$other" | head -n 1)" "what it said"
divvy token create >user.token 2>/dev/null
mkdir away
chmod 600 user.token
login() { DIVVY_HOME=$PWD/away DIVVY_CONTROLLER=$PWD/user.token "$@"; }
expect "$id n1" "$(login srun --jobid="$id" --overlap -n1 sh -c 'cat; echo $DIVVY_JOB_ID $DIVVY_NODE' </dev/null)" \
  "a step from a login node"
login srun --jobid="$id" --overlap -n1 sh -c 'cat; exit 5' <in >out 2>err && code=0 || code=$?
expect 5 $code "its exit code: $(cat err)"
cmp in out || fail "what went through TLS is another"
here=$(divvy submit --quiet --gpus 1 --gpu-type h100 -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done")
wait_for "its start" state_is "$here" running
expect "$here" "$(login srun --jobid="$here" -n1 sh -c 'echo $DIVVY_JOB_ID' </dev/null)" "a step on the controller's own machine"

login srun --jobid="$here" -n1 sh -c "echo ready; $stays" >there 2>/dev/null </dev/null &
runner=$!
wait_for "it" grep -q ready there
login scancel "$here.1" || fail "scancel of a step from a login node: $?"
wait $runner && fail "a step that was cancelled ended with 0" || true

# A job on several nodes: the step is sent to the first node, and from there to the others.
gang=$(divvy submit --quiet --nodes 2 --gpus 1 --gpu-type a100 -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done")
wait_for "its start" state_is "$gang" running
expect "0 1" "$(srun --jobid="$gang" -N2 -n2 --overlap sh -c 'echo $SLURM_NODEID' </dev/null | sort | xargs)" \
  "a step over the machines of a job elsewhere"
expect "1" "$(srun --jobid="$gang" -N1 -n1 --overlap sh -c 'echo $SLURM_NNODES' </dev/null)" "one on the first of them"

# A file of hosts says where each task runs, in a step and in a job.
printf 'n2\nn1 # the second\nn2\n' >hosts
export SLURM_HOSTFILE=$PWD/hosts
expect "n2 arbitrary 1,2 n1 arbitrary 1,2 n2 arbitrary 1,2" "$(srun --jobid="$gang" --overlap -l \
  sh -c 'echo $SLURMD_NODENAME $SLURM_DISTRIBUTION $SLURM_TASKS_PER_NODE' </dev/null | where)" "a step as the file lists it"
expect "n2" "$(srun --jobid="$gang" --overlap -l -n1 sh -c 'echo $SLURMD_NODENAME' </dev/null | where)" "its first task"
expect "n1 n2" "$(srun --jobid="$gang" --overlap -l -m arbitrary -w n1,n2 sh -c 'echo $SLURMD_NODENAME' </dev/null | where)" \
  "a step as -w lists it"
expect "n2 n1 n2" "$(srun --jobid="$gang" --overlap -l -m cyclic sh -c 'echo $SLURMD_NODENAME' </dev/null | where)" \
  "the file wins over -m"
printf 'n2\nn1,n9\n' >more
expect "n2 n1" "$(SLURM_HOSTFILE=$PWD/more srun --jobid="$gang" --overlap -l -n2 sh -c 'echo $SLURMD_NODENAME' </dev/null | where)" \
  "hosts of no task, which the job does not have"
SLURM_HOSTFILE=$PWD/none srun -n1 true : -n1 true </dev/null 2>told || fail "several components read the file: $(cat told)"
srun --jobid="$gang" --overlap -n4 true </dev/null 2>told && fail "more tasks than hosts" || true
grep -q "4 tasks need 4 entries in the list of hosts, which has 3" told || fail "more tasks than hosts: $(cat told)"
expect "n2 n1 n2" "$(srun -l sh -c 'echo $SLURMD_NODENAME' </dev/null | where)" "a job as the file lists it"
listed=$(sbatch --parsable -m arbitrary -o listed --wrap 'srun -l sh -c "echo \$SLURMD_NODENAME"')
wait_for "its end" state_is "$listed" succeeded
expect "n2 n1 n2" "$(where <listed)" "a batch job as the file lists it"
unset SLURM_HOSTFILE

# The node, GPU and cores of each rank, for users and for programs.
srun --jobid="$gang" -N2 -n2 --gpus-per-task=1 --overlap --cpu-bind=cores sh -c "until [ -e $machines/mapped ]; do sleep 0.02; done" </dev/null &
mapped=$!
ranks() { divvy show "$gang" | sed -n 's/^ *rank /rank /p' | tr -s ' ' | grep GPU; }
ranks_are_two() { [ "$(ranks | grep -c GPU)" = 2 ]; }
wait_for "its map" ranks_are_two
expect "$(field "$gang" gpus | tr -d '[]')" "$(ranks | sed -n 's/^rank 0 n1 GPU \([0-9]*\) cores [0-9]*$/\1/p')" "rank 0: $(ranks)"
ranks | grep -qx 'rank 1 n2 GPU 0 cores [0-9]*' || fail "rank 1: $(ranks)"
divvy show "$gang" --json | grep -q '"task_map":\[{"rank":0,"node":"n1","gpus":\[[0-3]\],"cores":"[0-9]*"},{"rank":1,"node":"n2","gpus":\[0\],"cores":"[0-9]*"}\]' ||
  fail "the map for programs: $(divvy show "$gang" --json)"
touch "$machines/mapped"
wait $mapped || fail "the step that was looked at ended with $?"

# sattach: shows the output of a batch job there, also of a step that its script started, and the terminal of a step
# that has one.
cat >script.sh <<S
#!/bin/sh
echo begun
srun -n1 sh -c 'echo from the step; until [ -e $machines/step ]; do sleep 0.02; done'
echo over
S
batch=$(sbatch --parsable -w n1 --gpus=1 script.sh)
wait_for "its step" sh -c "squeue -s -h -o %i | grep -qx $batch.0"
sattach "$batch.7" 2>told && fail "a step that is not there was joined" || true
grep -q "Invalid job step id" told || fail "sattach of no step says: $(cat told)"
sattach "$batch.0" >of_step 2>told &
one=$!
sattach "$batch.batch" >of_batch &
other=$!
wait_for "what the step says" grep -q "from the step" of_step
grep -q "what step $batch.0 prints goes to" told || fail "sattach says: $(cat told)"
wait_for "what the batch step says" grep -q begun of_batch
touch "$machines/step"
wait $one || fail "sattach of a step ended with $?"
wait $other || fail "sattach of the batch step ended with $?"
expect "begun from the step over" "$(xargs <of_batch)" "the batch step's output"
expect "begun from the step over" "$(xargs <of_step)" "the job's output"
sattach "$batch.0" 2>told && fail "a step that has ended was joined" || true
grep -q "it has ended" told || fail "sattach of a step that has ended says: $(cat told)"
divvy run --nodelist n1 --gpus 1 -- sh -c "until [ -e $machines/step2 ]; do sleep 0.02; done" </dev/null &
runner=$!
wait_for "one in the foreground" sh -c 'divvy queue --json --state running | grep -q "\"is_foreground\":true"'
front=$(divvy queue --csv 2>/dev/null | tail -n 1 | cut -d, -f1)
sattach "$front.0" 2>told && fail "the output of another's terminal was joined" || true
grep -q "cannot be joined" told || fail "sattach of what is in the foreground says: $(cat told)"
touch "$machines/step2"
wait $runner || fail "it ended with $?"

# A terminal there: its size and its input.
if command -v script >/dev/null; then
  script -qefc "stty rows 33 cols 77; srun --jobid=$id --overlap --pty sh -c 'until [ \"\$(stty size)\" = \"33 77\" ]; do sleep 0.02; done; tty; read -r line; echo \"got \$line\"; exit 6'" \
    shown <<<typed >/dev/null && code=0 || code=$?
  expect 6 $code "a terminal there: $(cat shown)"
  grep -q 'got typed' shown || fail "what was typed: $(cat shown)"
fi

# A job whose first node is n1, with a component on the controller's node. Its steps are those that n1 knows, while it
# runs and afterwards. A step started here is known there as well.
own=$(divvy nodes --csv | tail -n +2 | cut -d, -f1 | grep -v '^n[12]$')
printf '#!/bin/sh\nsrun -n1 sh -c "exit 4"\nsrun --het-group=1 -n1 sh -c "exit 6"\ntouch %s/stepped\nuntil [ -e %s/step3 ]; do sleep 0.02; done\n' \
  "$machines" "$machines" >parts.sh
parts=$(divvy submit --quiet --nodelist n1 --gpus 1 : --nodelist "$own" --gpus 1 parts.sh)
codes() { sacct -n -P -j "$parts" -o jobid,exitcode | sed -n 's/.*\.[0-9][0-9]*|//p' | xargs; }
codes_are() { [ "$(codes)" = "$1" ]; }
wait_for "its steps" test -e "$machines/stepped"
expect "4:0 6:0" "$(codes)" "the steps of a job that begins on n1"
srun --jobid="$parts" -n1 sh -c 'exit 2' </dev/null 2>/dev/null && code=0 || code=$?
expect 2 $code "a step there that is called here"
wait_for "its code" codes_are "4:0 2:0 6:0"
touch "$machines/step3"
divvy wait "$parts" >/dev/null 2>&1 || fail "it ended otherwise: $(field "$parts" reason)"
expect "4:0 2:0 6:0" "$(codes)" "its steps after its end: $(divvy show "$parts")"

# The node is cut off: the caller is told and does not hang. A node that is away is named.
srun --jobid="$id" --overlap -n1 sh -c "echo ready; $stays" >cut 2>told </dev/null &
runner=$!
wait_for "it" grep -q ready cut
kill_agent n1
on n1 agent --detach --quiet || fail "n1 did not come again"
wait $runner && code=0 || code=$?
expect 1 $code "the end of a step whose way was cut"
grep -q "the session with node n1 is over" told || fail "it says: $(cat told)"
wait_for "the end of its task" sh -c "! pgrep -f '^$stays'"
kill_agent n1
wait_for "n1 to be away" sh -c 'divvy nodes --csv | grep -E "^n1,(away|lost)"'
srun --jobid="$id" --overlap -n1 true </dev/null 2>told && fail "a step on a machine that is away" || true
grep -q "node n1, which is away" told || fail "it says: $(cat told)"
on n1 agent --detach --quiet || fail "n1 did not come again"
touch "$machines/go"
divvy wait "$id" >/dev/null 2>&1 || fail "the job ended otherwise: $(field "$id" reason)"
srun --jobid="$id" -n1 true </dev/null 2>told && fail "a step of a job that has ended" || true
grep -q "job $id has ended" told || fail "it says: $(cat told)"
srun --jobid=999 -n1 true </dev/null 2>told && fail "a step of no job" || true
grep -q "there is no job 999" told || fail "it says: $(cat told)"

echo "remote_steps: passed"
