#!/usr/bin/env bash
# Heterogeneous jobs: components on nodes of different kinds start together and end together, and steps run in each of
# them. One server can also hold all components.
. "$(dirname "$0")/lib.sh"

port=
up_listening
with_machines
submit() { divvy submit --quiet "$@"; }
gpus_free() { divvy status --json | grep -oE '"gpus_free":[0-9]+' | cut -d: -f2; }
all_free() { [ "$(gpus_free)" = "$1" ]; }
divvy shims shims >/dev/null
PATH=$PWD/shims:$PATH

# One server has room for both components of a Slurm script.
cat >both.sh <<'X'
#!/bin/bash
#SBATCH -n 1 --gres=gpu:1 -o both.out
#SBATCH hetjob
#SBATCH -n 2 --gres=gpu:1
echo "$SLURM_HET_SIZE $SLURM_NTASKS_HET_GROUP_1"
srun sh -c 'echo "a $SLURM_PROCID/$SLURM_NTASKS $CUDA_VISIBLE_DEVICES"' : sh -c 'echo "b $SLURM_PROCID/$SLURM_NTASKS $CUDA_VISIBLE_DEVICES"' | sort
X
id=$(sbatch --parsable both.sh)
divvy wait "$id" >/dev/null 2>&1 || true
expect "2 2
a 0/3 0
b 1/3 1
b 2/3 1" "$(cat both.out)" "components on one server"

# Components that can never fit together are refused. If one component is the reason, the message names it.
! submit --gpus 1 : --gpus 9 -- true 2>err || fail "took 9 GPUs of 2"
grep -q 'component 1 asks for 9 GPUs' err || fail "said: $(cat err)"
! submit --gpus 2 : --gpus 1 -- true 2>err || fail "took 3 GPUs of 2"
grep -q 'each of its components fits alone' err || fail "said: $(cat err)"
! submit : --gpus 1 -- true 2>err || fail "took a job whose first component is empty"
grep -q "there are no options before the first ':'" err || fail "said: $(cat err)"

# A component that does not exist is refused, outside of jobs and inside.
! srun --het-group=1 true 2>err || fail "ran in component 1 of a job that has none"
grep -q 'no component 1; it has only component 0; omit --het-group' err || fail "said: $(cat err)"
! divvy run -- sh -c 'srun echo a : echo b' >out 2>err || fail "ran echo with ':' as an argument: $(cat out)"
grep -q 'has only one component' err out || fail "said: $(cat err out)"

divvy token create --node --uses 2 >token 2>/dev/null
for name in n1 n2; do
  on $name agent --join-file "$DIVVY_HOME/token" --name $name --emulate 4xA100-40GB --detach --quiet || fail "$name did not join"
done

# Three nodes of two kinds. Each component has tasks, with ranks in order.
id=$(submit --gpus 1 --gpu-type h100 : --nodes 2 --gpus 2 --gpu-type a100 -- sh -c 'echo "$RANK of $WORLD_SIZE: $CUDA_VISIBLE_DEVICES"')
divvy wait "$id" >/dev/null 2>&1 || true
expect succeeded "$(field "$id" state)" "a job of two components"
expect "0 of 3: 0 1 of 3: 0,1 2 of 3: 0,1" "$(divvy logs "$id" | sort | xargs)" "its ranks"
divvy show "$id" | grep -q '^component 1  *2 nodes with 2 GPUs each of type a100' || fail "show says: $(divvy show "$id")"
divvy show "$id" | grep -q 'component 0 on .*: rank 0, GPU 0$' || fail "show says: $(divvy show "$id")"

# All or nothing: while one component has no room, the other does not start.
holder=$(submit --gpus 3 --gpu-type a100 --nodes 2 -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done")
wait_for "the holder" state_is "$holder" running
cat >wait.sh <<'X'
#!/bin/bash
#SBATCH -N1 --gres=gpu:h100:1 -o wait.out
#SBATCH hetjob
#SBATCH -N2 --gres=gpu:a100:2 -c 2
srun --het-group=0,1 sh -c 'echo "$SLURM_PROCID $SLURM_JOB_NUM_NODES"' | sort
srun -J far --het-group=1 sleep 1000 || sleep 1000
X
id=$(sbatch --parsable wait.sh)
expect queued "$(field "$id" state)" "a job one of whose components has no room"
divvy why "$id" | grep -q 'component 1 needs 2 nodes with 2 GPUs' || fail "why says: $(divvy why "$id")"
expect "$id+0 PD 1
$id+1 PD 2" "$(squeue -h -j "$id" -o '%i %t %D' | sort)" "squeue of components"
expect "$id+1" "$(squeue -h -j "$id+1" -o %i)" "squeue of one component"
expect 4 "$(gpus_free)" "what is free while it waits"
touch "$machines/go"
wait_for "its start" state_is "$id" running
wait_for "its second step" sh -c "squeue -h -s -j $id | grep -q '$id.1 '"
expect "0 1 1 2 2 2" "$(xargs <wait.out)" "its first step"
expect "$id.1 far n[1-2]" "$(squeue -h -s -j "$id" -o '%i %j %N' | grep '\.1 ')" "the machines of a step in one component"
expect "$id+0 $id+1" "$(sacct -n -X -P -j "$id" -o jobid | xargs)" "sacct of components"
expect "$id+0 $id+0.batch $id+0.0 $id+1 $id+1.1" "$(sacct -n -P -j "$id" -o jobid | xargs)" "sacct of their steps"
scontrol show job "$id+1" | grep -q "^JobId=$((id + 1)) HetJobId=$id HetJobOffset=1 " || fail "scontrol says: $(scontrol show job "$id+1")"

# The processes on one node are killed: the whole job ends, and no process is left.
victim=$(cat "$machines/n2/agent/agent.lock")
pids=$(pgrep -f "internal-s[a-z]* $machines/n2/" || true)
[ -n "$pids" ] || fail "no part of it on n2"
for pid in $pids; do kill -9 "$pid" 2>/dev/null || true; done
divvy wait "$id" >/dev/null 2>&1 || true
expect failed "$(field "$id" state)" "a job whose second component lost a machine"
grep -q n2 <<<"$(field "$id" reason)" || fail "its reason: $(field "$id" reason)"
wait_for "all GPUs" all_free 10
kill -0 "$victim" || fail "the agent has gone as well"

# Cancelling one component ends the steps that run only there. The first component stands for the whole job.
cat >two.sh <<'X'
#!/bin/bash
#SBATCH -N1 --gres=gpu:h100:1
#SBATCH hetjob
#SBATCH -N1 --gres=gpu:a100:1
srun --het-group=0 sleep 1000 &
srun --het-group=1 sleep 1000 &
wait
sleep 1000
X
two=$(sbatch --parsable --hold two.sh)
scancel "$two+1" 2>err && fail "one component of a waiting job was cancelled"
grep -q "Operation not permitted on individual component of heterogeneous job" err || fail "scancel said: $(cat err)"
scontrol release "$two"
wait_for "both steps" sh -c "[ \$(squeue -h -s -j $two -t running -o %i | grep -c '[.][01] *\$') = 2 ]"
scancel --name=other "$two+1" 2>err || fail "scancel of a component with another name: $(cat err)"
[ -s err ] && fail "a filter that does not match: $(cat err)"
scancel $((two + 1)) 2>err
grep -q "$two+1: signalled 1 step; its resources stay with job $two" err || fail "scancel said: $(cat err)"
wait_for "the end of one step" sh -c "[ \$(sacct -n -P -j $two -o jobid,state | grep -c '[.][01]|CANCELLED') = 1 ]"
expect 1 "$(sacct -n -P -j "$two" -o jobid,state | grep -c '[.][01]|RUNNING')" "the step of the other component"
state_is "$two" running || fail "the job has ended"
divvy cancel --grace 0 "$two" >/dev/null
wait_for "its end" state_is "$two" cancelled
scancel "$two+1" 2>err || fail "scancel of a component of an ended job: $(cat err)"
wait_for "all GPUs" all_free 10

id=$(submit --gpus 1 --gpu-type h100 : --gpus 1 --gpu-type a100 -- sleep 1000)
wait_for "its start" state_is "$id" running
waiter=$(submit --nodes 2 --gpus 4 --gpu-type a100 -- true)
divvy why "$waiter" | grep -Eq "job $id .* GPU [0-3] of n[12]" || fail "why says of who has it: $(divvy why "$waiter")"
divvy cancel "$waiter" >/dev/null
scancel "$id+0"
wait_for "its end" state_is "$id" cancelled
wait_for "all GPUs" all_free 10

# The controller is killed while the job runs. The job continues, and the next controller knows it with its components.
rm -f "$machines/go"
id=$(submit --gpus 1 --gpu-type h100 : --gpus 1 --gpu-type a100 : --cpus 1 -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done")
wait_for "its start" state_is "$id" running
before=$(divvy show "$id" | grep '^node')
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up_listening "$port"
expect "$before" "$(divvy show "$id" | grep '^node')" "its machines after a restart"
wait_for "what is free after a restart" all_free 8
touch "$machines/go"
wait_for "its end" state_is "$id" succeeded
wait_for "all GPUs" all_free 10
