#!/usr/bin/env bash
# Jobs on agents' nodes: they are placed there and known afterwards, whichever process was killed; gangs start as a
# whole or not at all.
. "$(dirname "$0")/lib.sh"

port=
up_listening
with_machines
submit() { divvy submit --quiet "$@"; }

divvy token create --node --uses 3 >token 2>/dev/null
for name in n1 n2; do
  on $name agent --join-file "$DIVVY_HOME/token" --name $name --emulate 4xA100-40GB --label feature=ib --detach --quiet ||
    fail "$name did not join"
done

# One job runs where its GPUs are; its output is stored there.
id=$(submit --gpus 3 --gpu-type a100 -- sh -c 'echo "$DIVVY_NODE $CUDA_VISIBLE_DEVICES"; exit 7')
divvy wait "$id" >/dev/null 2>&1 || true
expect failed "$(field "$id" state)" "the end of a job on n1"
expect 7 "$(field "$id" exit_code)" "its exit code"
expect n1 "$(field "$id" node)" "its machine"
grep -q '^n1 0,1,2$' "$machines/n1/agent/logs/$id.log" || fail "its log says: $(cat "$machines"/n1/agent/logs/*)"

# The agent is killed while the job runs. The job ends meanwhile, and the result is known afterwards.
id=$(submit --gpus 1 --gpu-type a100 -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done; exit 9")
wait_for "its start" state_is "$id" running
node=$(field "$id" node)
kill_agent "$node"
touch "$machines/go"
on "$node" agent --detach --quiet || fail "$node did not connect again"
wait_for "its end" state_is "$id" failed
expect 9 "$(field "$id" exit_code)" "the exit code of a job whose agent was killed"

# The controller is killed. Jobs continue, and end while no controller runs.
rm "$machines/go"
id=$(submit --gpus 4 --gpu-type a100 -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done; exit 5")
wait_for "its start" state_is "$id" running
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
touch "$machines/go"
up_listening "$port"
wait_for "its end" state_is "$id" failed
expect 5 "$(field "$id" exit_code)" "the exit code of a job that ended without a controller"

# A gang: prepared on both nodes, ranks in order, with the head node first.
wait_for "n1" node_is n1 up
wait_for "n2" node_is n2 up
id=$(submit --nodes 2 --gpus 2 --gpu-type a100 --tasks 4 --gpus-per-task 1 --label-output -- \
  sh -c 'echo "rank $RANK of $WORLD_SIZE on $DIVVY_NODE, node $NODE_RANK of $NNODES"')
divvy wait "$id" >/dev/null 2>&1 || true
head=$(field "$id" node)
log=$machines/$head/agent/logs/$id.log
expect succeeded "$(field "$id" state)" "the end of a gang ($(cat "$log" 2>/dev/null))"
expect 4 "$(grep -c '^[0-3]: rank [0-3] of 4 on n[12], node [01] of 2$' "$log")" "its lines ($(cat "$log"))"
expect 2 "$(grep -c 'on n1' "$log")" "its ranks on n1"

# A job runs again on another node: the output of each run is stored on its node and read from there.
id=$(submit --gpus 3 --gpu-type a100 --retries 1 --retry-delay 1s -- \
  sh -c "echo run \$DIVVY_ATTEMPT on \$DIVVY_NODE; until [ -e $machines/again ]; do sleep 0.02; done; exit 1")
wait_for "its start" state_is "$id" running
first=$(field "$id" node)
divvy node cordon "$first" >/dev/null
touch "$machines/again"
wait_for "its end" state_is "$id" failed
second=$(field "$id" node)
[ "$second" != "$first" ] || fail "it ran again on $first, which takes no work"
expect "run 2 on $second" "$(divvy logs "$id" 2>said)" "the log of its last run"
expect "divvy: note: run 1 was on $first; divvy logs --run 1 $id shows its output" "$(cat said)" "what is said of the first"
expect "run 1 on $first" "$(divvy logs --run 1 "$id" 2>&1)" "the log of its first run"
expect "run 2 on $second" "$(divvy logs --run 2 "$id" 2>&1)" "the log of its second run"
! divvy logs --run 3 "$id" >/dev/null 2>said || fail "a third run has a log"
grep -q "job $id had no run 3" said || fail "of a third run is said: $(cat said)"
divvy show "$id" >shown
grep -q "run 1 started on $first (GPUs 0-2): " shown || fail "its first start is not in its history: $(cat shown)"
grep -q "run 2 started on $second (GPUs 0-2): " shown || fail "its second start is not in its history: $(cat shown)"
grep -q "try 1 of 2 ended with exit code 1; tries again" shown || fail "its first end is not in its history: $(cat shown)"
divvy node resume "$first" >/dev/null

# torchrun gets its options from the environment, and is started once on each node.
id=$(submit --nodes 2 --gpus 2 --gpu-type a100 -- sh -c 'echo "$PET_NNODES $PET_NODE_RANK $PET_MASTER_ADDR"')
divvy wait "$id" >/dev/null 2>&1 || true
log=$machines/$(field "$id" node)/agent/logs/$id.log
expect "2 0 127.0.0.1 2 1 127.0.0.1" "$(sort "$log" | xargs)" "what torchrun finds"

# The first failing task ends the gang on all nodes. No process is left.
id=$(submit --nodes 2 --gpus 4 --gpu-type a100 -- sh -c '[ "$RANK" = 1 ] && exit 3; exec sleep 1000')
divvy wait "$id" >/dev/null 2>&1 || true
expect failed "$(field "$id" state)" "a gang whose second task fails"
expect 3 "$(field "$id" exit_code)" "its exit code"

# If one node cannot prepare a gang, it is rolled back on both.
id=$(submit --nodes 2 --gpus 4 --gpu-type a100 -- /no/such/program)
divvy wait "$id" >/dev/null 2>&1 || true
expect failed "$(field "$id" state)" "a gang without a program"

# One of its nodes loses its step process: the gang is retried. Then the reason names the node.
id=$(submit --nodes 2 --gpus 4 --gpu-type a100 --retries 1 --retry-delay 1s -- sleep 1000)
steps_of() {
  for process in /proc/[0-9]*; do
    [ "$(cat "$process/comm" 2>/dev/null)" = divvy-steps ] || continue
    tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q "$machines/$1/agent/runs/[^ ]*/$id " && echo "${process#/proc/}"
  done
}
has_steps() { [ -n "$(steps_of "$1")" ]; }
runs_after() { [ "$(field "$id" restarts)" = "$1" ] && state_is "$id" running; }
for restarts in 0 1; do
  wait_for "its start" runs_after $restarts
  second=n2
  [ "$(field "$id" node)" = n1 ] || second=n1
  wait_for "its step process" has_steps $second
  kill -9 $(steps_of $second)
done
divvy wait "$id" >/dev/null 2>&1 || true
field "$id" reason | grep -q "^node $second lost its part: the job's step process" || fail "the reason is: $(field "$id" reason)"

# With a grace for lost parts, the other part continues, and the job ends with its own process.
id=$(submit --nodes 2 --gpus 4 --gpu-type a100 --stale-grace never -- \
  sh -c "until [ -e $machines/stale ]; do sleep 0.02; done")
wait_for "its start" state_is "$id" running
second=n2
[ "$(field "$id" node)" = n1 ] || second=n1
wait_for "its step process" has_steps $second
kill -9 $(steps_of $second)
is_stale() { divvy why "$id" | grep -q "node $second lost its part: .*; its other parts continue (--stale-grace)"; }
wait_for "the loss" is_stale
expect running "$(field "$id" state)" "a gang without a part"
touch "$machines/stale"
divvy wait "$id" >/dev/null 2>&1 || true
expect failed "$(field "$id" state)" "the end of a gang whose step lost a task"
field "$id" reason | grep -q "^node $second lost its part: the job's step process" || fail "the reason is: $(field "$id" reason)"

# A Slurm script: the batch script runs once, and srun runs over both nodes.
cat >two.sh <<'EOF'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2 --constraint=feature=ib
echo "batch on $SLURM_NNODES: $SLURM_JOB_NODELIST"
srun sh -c 'echo "$SLURM_PROCID/$SLURM_NTASKS $SLURM_NODEID"'
EOF
id=$(submit two.sh)
divvy wait "$id" >/dev/null 2>&1 || true
log=slurm-$id.out
expect succeeded "$(field "$id" state)" "a script for two machines ($(cat "$log" 2>/dev/null))"
grep -q '^batch on 2: n\[1-2\]$' "$log" || fail "its batch says: $(cat "$log")"
expect "0/4 0
1/4 0
2/4 1
3/4 1" "$(grep / "$log" | sort)" "its tasks"

# srun outside a job, with named nodes.
expect "n1 n2" "$(divvy srun -n2 -w n1,n2 sh -c 'echo "$DIVVY_NODE"' 2>err | sort | xargs)" "srun -w of two machines ($(cat err))"
expect "n1 n1" "$(divvy srun -n2 -w n1 sh -c 'echo "$DIVVY_NODE"' 2>err | xargs)" "two tasks by srun -w of one machine ($(cat err))"

expect "$(hostname -s)" "$(divvy srun -w n1 printenv SLURM_SUBMIT_HOST 2>err)" "the machine of the submission ($(cat err))"

# A step there is ended by its number, from inside the job.
cat >ends.sh <<'EOF'
#!/bin/bash
#SBATCH --gpus=1 --nodelist=n1
srun -n1 sh -c 'echo up; exec sleep 87431' &
until grep -q up "slurm-$SLURM_JOB_ID.out"; do sleep 0.02; done
scancel "$SLURM_JOB_ID.0"
wait $!
echo "ended with $?"
scancel "$SLURM_JOB_ID.7" || echo "there is no 7"
EOF
id=$(submit ends.sh)
divvy wait "$id" >/dev/null 2>&1 || true
grep -q '^ended with 143$' "slurm-$id.out" || fail "a step that is ended says: $(cat "slurm-$id.out")"
grep -q '^there is no 7$' "slurm-$id.out" || fail "a step that is not there was ended: $(cat "slurm-$id.out")"

# A node that is away takes no new jobs, nor does a drained one. A job that waits for it reports that, and starts when
# the node is back.
kill_agent n2
wait_for "n2's absence" node_is n2 away
id=$(submit --gpus 1 --nodelist n2 -- true)
expect queued "$(field "$id" state)" "a job for a machine that is away"
divvy why "$id" | grep -q 'node n2 is away' || fail "why does not name it: $(divvy why "$id")"
divvy show "$id" | grep -q 'node n2 is away' || fail "the reason does not name it: $(divvy show "$id")"
on n2 agent --detach --quiet || fail "n2 did not connect again"
wait_for "its end" state_is "$id" succeeded
divvy node drain n1 --reason fan >/dev/null
id=$(submit --gpus 1 --nodelist n1 -- true)
divvy why "$id" | grep -q 'node n1 is drained: fan' || fail "why does not name it: $(divvy why "$id")"
divvy show "$id" | grep -q 'node n1 is drained: fan' || fail "the reason does not name it: $(divvy show "$id")"
divvy node resume n1 >/dev/null
wait_for "its end" state_is "$id" succeeded

# The controller's own node has a name, because there are several nodes.
own=$(divvy nodes --csv --no-header -o NAME | head -n 1)
id=$(submit --gpus 1 --gpu-type h100 -- sleep 1000)
wait_for "its start" state_is "$id" running
divvy queue --csv --no-header -o NODE | grep -qx "$own" || fail "the queue names no machine: $(divvy queue)"
divvy queue | head -n 1 | grep -q NODE || fail "the queue has no column for machines: $(divvy queue)"
divvy show "$id" | grep -q "node  *$own\$" || fail "show names no node: $(divvy show "$id")"
divvy why "$id" | grep -q "on GPU [01] of $own" || fail "why names no machine: $(divvy why "$id")"
divvy cancel "$id" --grace 0 >/dev/null

# A label that an agent sets for its own node remains when an administrator's label is removed.
divvy node label n1 feature= | grep -q 'feature=ib is set by its agent, and stays' || fail "$(divvy node label n1 feature=)"
expect "labelled n1" "$(divvy node label n1 rack=r1)" "a label that is new"
expect "the labels of n1 are unchanged" "$(divvy node label n1 rack=r1)" "a label that is not"
divvy node label n1 rack= >/dev/null

# GPUs of one node that take no new work, also after the controller's restart; lists of nodes.
divvy gpus restrict 'n[1-2]:0-9' 2>refusal && fail "GPUs that no machine has were taken"
grep -q 'there is no GPU 4; node n1 has 4 GPUs, 0 to 3' refusal || fail "the refusal says: $(cat refusal)"
divvy gpus restrict n9:0 2>refusal && fail "a machine that is none was taken"
grep -q "there is no node 'n9'; divvy nodes lists" refusal || fail "the refusal says: $(cat refusal)"
expect "New work on n1, n2 uses GPU 2 only; running jobs stay, and GPU fractions are moved." "$(divvy gpus restrict 'n[1-2]:2')" "what restrict says"
expect "New work on $own may use every GPU." "$(divvy gpus restrict all)" "what restrict says of the controller's node"
divvy status | grep -q "^GPUs .* free on 3 nodes.* on the controller's: " || fail "status says: $(divvy status)"
divvy gpus restrict n2:all >/dev/null
divvy nodes | grep '^n1' | grep -q 'GPUs 0,1,3 are restricted' || fail "nodes shows: $(divvy nodes)"
divvy nodes | grep '^n2' | grep -q 'restricted' && fail "n2 is restricted as well: $(divvy nodes)"
kill -9 "$(daemon_pid)"
up_listening "$port"
wait_for "the machines" sh -c "[ \"\$(divvy nodes --csv | grep -c ',up,')\" = 3 ]"
restricted_are() { [ "$(divvy gpus --csv | grep '^n1,' | grep -c ',restricted,')" = "$1" ]; }
wait_for "the restriction after the restart" restricted_are 3
expect 2 "$(divvy run --gpus 1 --nodelist n1 -- sh -c 'echo $DIVVY_GPUS')" "the GPU of a job on n1"
grep -q 'POST /v1/gpus/restrict.*n1' audit.log || fail "the audit log does not name it: $(tail -n 3 audit.log)"
divvy gpus restrict n1:all >/dev/null
expect 4 "$(divvy gpus --csv | grep '^n1,' | grep -c ',free,')" "free GPUs of n1"
divvy node cordon 'n[1-2]' >/dev/null
[ "$(node_state n1)$(node_state n2)" = cordonedcordoned ] || fail "a list of machines: $(divvy nodes)"
divvy node resume n1,n2 >/dev/null

# A gang is cancelled on all nodes. A cordoned node takes no jobs.
id=$(submit --nodes 2 --gpus 4 --gpu-type a100 -- sleep 1000)
wait_for "its start" state_is "$id" running
divvy nodes | grep -q '^n1' || fail "nodes shows: $(divvy nodes)"
divvy cancel "$id" >/dev/null
wait_for "its end" state_is "$id" cancelled
divvy node cordon n1 --reason disk >/dev/null
id=$(submit --gpus 1 --gpu-type a100 -- true)
divvy wait "$id" >/dev/null 2>&1 || true
expect n2 "$(field "$id" node)" "the machine of a job while n1 is cordoned"
id=$(submit --nodes 2 --gpus 1 --gpu-type a100 -- true)
divvy why "$id" >why
grep -q "asks for 2 nodes with 1 GPU" why || fail "why says: $(cat why)"
divvy node resume n1 >/dev/null
wait_for "its end" state_is "$id" succeeded

# A node is gone for good. A gang keeps its GPUs until an administrator declares that, and then runs again where there
# is room.
id=$(submit --nodes 2 --gpus 4 --gpu-type a100 -- sleep 1000)
alone=$(submit --nodelist n2 --gpus 0 -- sleep 1000)
wait_for "its start" state_is "$id" running
wait_for "the other's start" state_is "$alone" running
kill_agent n2
wait_for "n2's absence" node_is n2 away
divvy node remove n2 2>refusal && fail "a machine with jobs was removed"
grep -q 'its agent is away; if the node will not return' refusal || fail "remove says: $(cat refusal)"
divvy cancel "$alone" >/dev/null
divvy why "$alone" | grep -q 'node n2 is away' || fail "why says: $(divvy why "$alone")"
divvy node remove n2 --gone | grep -q 'removed n2' || fail "remove says nothing"
wait_for "what was cancelled there" state_is "$alone" cancelled
wait_for "the gang in the queue" state_is "$id" queued
free_of_n1() { [ "$(divvy gpus --csv | grep '^n1,' | grep -c ',free,')" = 4 ]; }
wait_for "the GPUs of its other machine" free_of_n1
history_says() { divvy show "$id" | grep -q "$1"; } # The store has the history a moment after the state changes.
wait_for "the reason in its history" history_says 'queued again: node n2 is gone for good'
divvy cancel "$id" >/dev/null
divvy down >/dev/null
