#!/usr/bin/env bash
# Rules of Slurm's commands that its own test suite checks: what they print for programs that watch them, and verbs of
# scontrol.
. "$(dirname "$0")/lib.sh"
port=
up_listening
with_machines
divvy shims bin >/dev/null
PATH=$DIVVY_HOME/bin:$PATH
mkdir work && cd work
host=$(hostname -s)
says() { grep -qE -- "$1" "$2" || fail "$3 does not say '$1' but: $(cat "$2")"; }
ended() { ! kill -0 "$1" 2>/dev/null; }
leaves_the_queue() { [ -z "$(squeue -h -j "$1" -o %i)" ]; }
count_is_one_held() { [ "$(count_in_state held)" = 1 ]; }

# -v names the job, its nodes and each start of its step.
srun -v true 2>err
says "srun: jobid 1: nodes\(1\):\`$host', cpu counts: 1\(x1\)" err "srun -v"
says "srun: launching StepId=1\.0 on host $host, 1 tasks" err "srun -v"
srun -v -n2 true 2>err
says "srun: jobid 2: " err "srun -v of two tasks"
says "srun: launching StepId=2\.0 on host $host, 2 tasks" err "srun -v of two tasks"
sbatch -vv -A lab --wrap=true >out 2>err
says "sbatch: account +: lab" err "sbatch -vv"
SBATCH_DEBUG=2 sbatch --wrap=true >out 2>err
says "sbatch: verbose +: 2" err "SBATCH_DEBUG"
wait_for "their ends" queue_is_empty

# -I: a job that cannot begin at once is cancelled, and the command ends.
code=0
srun -I --hold true 2>err || code=$?
expect 1 $code "the exit status of srun -I"
says "srun: error: Unable to allocate resources: Immediate execution impossible" err "srun -I"
wait_for "no job is left" queue_is_empty
srun -I true || fail "srun -I of a job that can begin"

# A job that waits is announced, and Ctrl-C ends it.
salloc --hold true 2>err &
salloc=$!
wait_for "a held job" count_is_one_held
id=$(squeue -h -o %i)
wait_for "its line" grep -q "queued and waiting" err
says "salloc: Pending job allocation $id" err "salloc"
kill -INT $salloc
wait_for "the end of salloc" ended $salloc
says "salloc: Job allocation $id has been revoked" err "salloc that was interrupted"
salloc --hold true 2>err &
wait_for "a held job" count_is_one_held
wait_for "the line that it waits" grep -q "queued and waiting" err
id=$(squeue -h -o %i)
expect 0 "$(squeue -h -j "$id" -o %Q)" "the priority of a held job"
scontrol release "$id"
wait
says "salloc: job $id has been allocated resources" err "salloc that had waited"
says "salloc: Granted job allocation $id" err "salloc that had waited"
says "salloc: Relinquishing job allocation $id" err "salloc that had waited"
salloc /no/such/program 2>err && fail "salloc of a program that does not exist"
says "salloc: error: Unable to exec command" err "salloc of a program that does not exist"

# -l labels the lines of files that tasks write themselves, and keeps the exit code.
code=0
srun -l -n2 -o 'lines.%t' sh -c 'echo hello; echo oops >&2; exit $((SLURM_PROCID + 3))' 2>/dev/null || code=$?
expect 4 $code "the exit code of labelled tasks"
expect "1: hello 1: oops" "$(xargs <lines.1)" "the file of task 1"

# --cpu-bind=verbose prints the cores of each task; -Q leaves out the notes on options.
srun -n2 --cpu-bind=verbose true 2>err
expect 2 "$(grep -c "^cpu-bind=MASK - $host, task [01] [01] .*: mask 0x[0-9a-f]* set\$" err)" "the lines of --cpu-bind=verbose"
srun --hint=nomultithread --cpu-bind=threads true 2>err
says "mutually exclusive with --hint" err "--hint beside --cpu-bind"
srun -Q --hint=nomultithread true 2>err
expect "" "$(cat err)" "what srun -Q prints"

# -W names the tasks that still run.
srun -n3 -W1 sh -c '[ "$SLURM_PROCID" = 1 ] || sleep 1000' 2>err || true
says "srun: error: First task exited 1s ago" err "srun -W"
says "srun: StepId=[0-9]+\.0 tasks 0,2: running" err "srun -W"

# A step has a time limit of its own, which scontrol can change.
id=$(sbatch --parsable -o limit.out --wrap 'srun -t 30 sleep 1000; echo "the step ended with $?"')
wait_for "its step" sh -c "squeue -h -s -o %i | grep -q '^$id.0'"
says "StepId=$id\.0 .* TimeLimit=00:30:00$" <(scontrol show step "$id.0") "scontrol show step"
scontrol update StepId="$id.1" TimeLimit=1 2>err && fail "the limit of a step that does not exist was changed"
says "Invalid job step id specified" err "scontrol update of a step that does not exist"
scontrol update StepId="$id.0" TimeLimit=0:01
wait_for "its end" queue_is_empty
says "^srun: error: \*\*\* STEP $id\.0 ON $host CANCELLED AT 20.*T.* DUE TO TIME LIMIT \*\*\*$" limit.out "the step"
says "^the step ended with 143$" limit.out "the script"
expect TIMEOUT "$(sacct -n -P -o State -j "$id.0")" "the state of the step"
srun -n2 -t 30 sh -c '[ "$SLURM_PROCID" = 1 ] || scontrol show step "$SLURM_JOB_ID.0"' >out
says " TimeLimit=UNLIMITED$" out "the step of an srun that limits its job"

# --signal of a script goes to the tasks of its steps, and its time limit is reported in its own output.
cat >warned.sh <<'X'
#!/bin/bash
#SBATCH --output=warned.out --signal=USR1@3600
sh -c 'trap "echo command heard" USR1; while :; do sleep 0.05; done' &
srun sh -c 'trap "echo task heard; exit 0" USR1; echo ready; while :; do sleep 0.05; done'
echo went on
while :; do sleep 0.05; done 2>/dev/null
X
SECONDS=0
id=$(divvy submit --quiet --time 2h warned.sh)
wait_for "the task" grep -q ready warned.out
divvy update "$id" --time "$((2 * SECONDS + 8))s" >/dev/null  # A short limit has its warning at half of the time.
wait_for "the warning" grep -q "went on" warned.out
expect "task heard went on" "$(grep -E '^(command|task|went)' warned.out | xargs)" "--signal"
divvy update "$id" --time 1s >/dev/null
wait_for "its end" queue_is_empty
line="^divvy: error: \*\*\* JOB $id ON $host CANCELLED AT 20.*T.* DUE TO TIME LIMIT \*\*\*$"
if [ "$(id -u)" != 0 ]; then says "$line" warned.out "the job"  # Not written for jobs of root.
else ! grep -qE "$line" warned.out || fail "the line was written for a job of root"; fi
expect TIMEOUT "$(sacct -n -X -P -o State -j "$id")" "the state of the job"

# --quit-on-interrupt ends tasks that ignore Ctrl-C.
for tasks in 1 2; do
  srun -n$tasks --quit-on-interrupt sh -c 'trap "" INT; echo up; while :; do sleep 0.05; done' >out 2>err &
  srun=$!
  wait_for "its tasks" sh -c "[ \$(grep -c up out) = $tasks ]"
  kill -INT $srun
  wait_for "the end of srun" ended $srun
  expect 1 "$(grep -cE "srun: sending Ctrl-C to StepId=[0-9]+\.0" err)" "the message of srun --quit-on-interrupt"
done
wait_for "their ends" queue_is_empty
cat >quits.sh <<'X'
# Only a signal from inside the job's session counts as Ctrl-C.
(until [ "$(grep -c up quits.out)" = 2 ]; do sleep 0.05; done; kill -INT $$) &
exec srun -n2 --quit-on-interrupt sh -c 'trap "" INT; echo up; while :; do sleep 0.05; done'
X
salloc sh quits.sh >quits.out 2>quits.err &
wait_for "its tasks" sh -c "[ \$(grep -c up quits.out) = 2 ]"
wait_for "the end of the job" queue_is_empty
wait $! || true
expect 1 "$(grep -cE "srun: sending Ctrl-C to StepId=[0-9]+\.0" quits.err)" "the message of srun in an allocation"

# A job appends to its output, so that others can write there meanwhile.
cat >appends.sh <<'X'
echo first
while [ ! -e go ]; do sleep 0.05; done
echo third
X
sbatch --parsable -o appends.out --wrap "sh $PWD/appends.sh" >out
wait_for "its first line" grep -q first appends.out
echo second >>appends.out
touch go
wait_for "its end" queue_is_empty
expect "first second third" "$(xargs <appends.out)" "the output of a job and another writer"

# listpids names the tasks of steps by their ranks.
id=$(sbatch --parsable -o pids.out --wrap 'srun -n2 sh -c "echo up; sleep 1000; true"')
wait_for "its tasks" sh -c "[ \$(grep -c up pids.out) = 2 ]"
scontrol listpids "$id.0" >out
expect "0 0 0|0 1 1" "$(awk 'NR > 1 && $4 != "-" {print $3, $4, $5}' out | sort | paste -sd'|')" "listpids of a step"
scontrol listpids "$id" >out
expect "0 batch" "$(awk 'NR > 1 {print $3}' out | sort -u | xargs)" "listpids of a job"
scontrol listpids "$id.7" 2>err && fail "processes of a step that does not exist"
says "StepId=$id\.7 does not exist on" err "listpids"
scancel "$id"

# A job with a begin time starts then. The job 0 stands for all jobs.
id=$(sbatch --parsable --begin=2099-01-01T12:00:00 --wrap true)
says "StartTime=2099-01-01T12:00:00 " <(scontrol show job "$id") "scontrol show job"
says "^JobId=$id " <(scontrol show job 0) "scontrol show job 0"
says "^   JobState=TIMEOUT " <(scontrol show job) "scontrol show job, which shows ended jobs for some minutes"
scancel "$id"

# An epilog of a task that does not end is killed.
printf '#!/bin/sh\nexec sleep 1000\n' >slow.sh
chmod +x slow.sh
expect 4 "$(srun --task-epilog="$PWD/slow.sh" sh -c 'exit 4' >/dev/null 2>err; echo $?)" "the exit status of the task"
says "srun: error: TaskEpilog failed status=9" err "srun"

# scancel asks before it ends steps, and says what it sends.
id=$(sbatch --parsable --wrap 'srun sleep 1000')
wait_for "its step" sh -c "squeue -h -s -o %i | grep -q '^$id.0'"
echo n | scancel -i "$id.0" >out
says "Cancel step_id=$id\.0 \[y/n\]\?" out "scancel -i of a step"
squeue -h -s -o %i | grep -q "^$id.0" || fail "the step ended although the answer was n"
scancel -v --signal=CONT "$id" 2>err
says "scancel: Signal 18 to job $id" err "scancel -v --signal"
scancel "$id"
wait_for "its end" queue_is_empty
echo y | scancel -i "$id" 2>err >out
says "Kill job error on job id $id: Job/step already completing or completed" err "scancel -i of an ended job"
scancel 0 2>err && fail "job 0 was cancelled"
says "Invalid job id" err "scancel 0"
scancel -v --name=none 2>err
says "No active jobs match ALL" err "scancel -v without a match"

# suspend and resume of an array are those of its elements.
states() { squeue -h -j "$1" -t all -o %T | sort | xargs; }
states_are() { [ "$(states "$1")" = "$2" ]; }
id=$(sbatch --parsable --array=0-1 -o /dev/null --wrap 'sleep 1000')
wait_for "two elements" states_are "$id" "RUNNING RUNNING"
scontrol suspend "$id"
wait_for "suspended elements" states_are "$id" "SUSPENDED SUSPENDED"
scontrol resume "$id"
wait_for "resumed elements" states_are "$id" "RUNNING RUNNING"
scancel "$id"
wait_for "their ends" queue_is_empty

# GPUs of a step: each task says which it sees, and the step of an srun has the options of its job.
srun -n2 --gpus=1 --gpu-bind=verbose,closest true 2>err
expect 2 "$(grep -c '^gpu-bind: usable_gres=0$' err)" "the tasks that say their GPUs"
srun --gpus=1 --gpu-freq=medium sh -c 'scontrol show step $SLURM_JOB_ID.0' >out 2>err
says "TresFreq=gpu:medium" out "scontrol show step"
says "TresPerStep=cpu:1,gres:gpu:1" out "scontrol show step"

# scontrol without a command reads commands.
printf 'ping\n!!\nexit\nping\n' | scontrol >out
expect 2 "$(grep -c 'Slurmctld(primary)' out)" "the pings before exit"
scontrol help >out
says "Valid <COMMAND> values are:" out "scontrol help"

# requeue incomplete leaves out elements that have succeeded.
id=$(sbatch --parsable --requeue --array=1-3 -o /dev/null --wrap 'exit $((SLURM_ARRAY_TASK_ID - 2))')
wait_for "their ends" queue_is_empty
scontrol requeue incomplete "$id"
wait_for "their second ends" sh -c "[ \$(sacct -n -X -P -o Restarts -j $id | grep -c 1) = 2 ]"
expect 0 "$(sacct -n -X -P -o Restarts -j "${id}_2")" "the restarts of the element that had succeeded"
wait_for "their ends" queue_is_empty

# Each component of a heterogeneous job has an id of its own.
id=$(sbatch --parsable --hold -n1 : -n1 --wrap 'sleep 1000')
expect "$id+1" "$(squeue -h -j $((id + 1)) -o %i)" "squeue of the id of a component"
expect "$id-$((id + 1))" "$(squeue -h -j "$id+0" -O hetjobidset | xargs)" "the ids of the components"
expect $((id + 2)) "$(sbatch --parsable --hold --wrap true)" "the id of the next job"
scancel $((id + 1)) 2>err && fail "one component of a waiting job was cancelled"
says "Operation not permitted on individual component of heterogeneous job" err "scancel of a component's id"
after=$(sbatch --parsable -d "afterany:$((id + 1))" --wrap true)
expect "afterany:$id(unfulfilled)" "$(squeue -h -j "$after" -o %E)" "a dependency on the id of a component"
scancel "$id" "$after"
expect cancelled "$(field "$id" state)" "the whole job"
srun --gpu-bind=nearest : hostname 2>err && fail "an invalid --gpu-bind was accepted"
says "srun: error: Invalid --gpu-bind argument: gpu:nearest" err "--gpu-bind of a component"
expect "$host $host" "$(srun -n1 : -n1 hostname | sed 's/[.].*//' | xargs)" "components that share a command"
other=$(sbatch --parsable --hold --gpus=1 --gpu-bind=closest : --gpus=1 --gpu-bind=map_gpu:1 : -n1 --wrap true)
expect "$other TresBind=gpu:closest|$((other + 1)) TresBind=gpu:map_gpu:1|$((other + 2))" \
  "$(scontrol -o show job "$other" | sed -E 's/^JobId=([0-9]+) .*( TresBind=[^ ]*).*/\1\2/; s/^JobId=([0-9]+) .*/\1/' |
    paste -sd'|')" "the options of components"
scancel "$other"

# sstat lists running steps: the first one, one by number, or all.
id=$(sbatch --parsable -o /dev/null --wrap 'srun -J one sleep 1000 & srun -J two sleep 1000 & wait')
wait_for "two steps" sh -c "[ \$(squeue -h -s -j $id -t running -o %i | grep -c '[.][01] *\$') = 2 ]"
expect "$id.0" "$(sstat -n -P -o JobID "$id")" "sstat of a job"
expect "$id.1 1" "$(sstat -n -P -o JobID,NTasks -j "$id.1" | tr '|' ' ')" "sstat of a step"
expect "$id.batch $id.0 $id.1" "$(sstat -a -n -P -o JobID -j "$id" | xargs)" "sstat -a"
scancel "$id"
wait_for "its end" leaves_the_queue "$id"
sstat -j "$id" >out 2>err && fail "sstat of an ended job"
says "sstat: error: no steps running for job $id" err "sstat of an ended job"

# Account names are in lower case; sbatch reads lines of LSF and PBS; one wait for each element.
printf '#!/bin/sh\n#BSUB -Jlsf -oout.%%j -W2\n#PBS -A Vision_Lab\ntrue\n' >lsf.sh
id=$(sbatch --parsable --hold lsf.sh)
scontrol -o show job "$id" >out
for word in JobName=lsf TimeLimit=00:02:00 Account=vision_lab "StdOut=.*/out.$id( |\$)"; do says "$word" out "scontrol of #BSUB"; done
expect "$id" "$(squeue -h -A Vision_Lab -o %i)" "squeue -A in other capitals"
scancel "$id"
first=$(sbatch --parsable --hold -a 0-1 -o /dev/null --wrap true)
expect "JobId=$first" "$(scontrol -o show job "${first}_1" | grep -o '^[^ ]*')" "the id of an element that waits with its array"
scontrol update JobId="${first}_1" TimeLimit=2
expect "JobId=$((first + 2))" "$(scontrol -o show job "${first}_1" | grep -o '^[^ ]*')" "the id of an element that differs"
second=$(sbatch --parsable -a 0-1 -o /dev/null -d "aftercorr:$first" --wrap true)
expect "afterok:${first}_1(unfulfilled)" "$(squeue -h -j "${second}_1" -o %E)" "what an element waits for"
scontrol release "${first}_1"
wait_for "the end of the second element" sh -c "[ -n \"\$(sacct -n -X -P -s completed -j ${second}_1 -o jobid)\" ]"
expect PD "$(squeue -h -r -j "${second}_0" -o %t)" "the first element"
scontrol release "$first"
wait_for "the end of the first element" leaves_the_queue "$second"

# scontrol reconfigure succeeds as long as the controller has read the file as it is.
scontrol reconfigure || fail "there is no newer divvy.toml"
printf '# new\n' >>"$DIVVY_HOME/divvy.toml"
touch -d '+1 minute' "$DIVVY_HOME/divvy.toml"
scontrol reconfigure 2>err && fail "a newer divvy.toml was not read"
says "has changed since the controller started at .*; divvy down and divvy up read it again" err "scontrol reconfigure"

# Partitions that scontrol makes are labels of nodes, which a controller's own node does not have.
scontrol create PartitionName=debug Nodes="$host" 2>err && fail "the controller's own node got a label"
says "it has no agent and no labels" err "scontrol create on the only node"
divvy token create --node >token 2>/dev/null
on n1 agent --join-file "$PWD/token" --name n1 --emulate 2xA100-80GB --detach --quiet || fail "n1 did not join"
wait_for "n1" node_is n1 up
scontrol create PartitionName=debug Nodes=n1
expect n1 "$(sinfo -h -p debug -o %N)" "the nodes of the new partition"
scontrol create PartitionName=debug Nodes=n1 2>err && fail "a partition that exists was made again"
says "Partition name already exists: debug" err "scontrol create"
scontrol create PartitionName=long Nodes=n1 MaxTime=30 2>err && fail "a limit was accepted"
says "limits are in the table \[pools.long\] of divvy.toml" err "scontrol create with a limit"
scontrol update PartitionName=debug MaxTime=UNLIMITED || fail "no limit is what it has"
expect debug "$(srun -p debug printenv SLURM_JOB_PARTITION)" "a job in the new partition"
scontrol delete PartitionName=debug
expect "" "$(sinfo -h -o %P | grep debug || true)" "the partitions after its deletion"
SINFO_PARTITION=main sinfo -a 2>err >out || fail "-a of the command line wins over the environment: $(cat err)"

