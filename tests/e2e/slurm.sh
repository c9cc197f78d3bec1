#!/usr/bin/env bash
# Programs that drive Slurm by its commands: what they run, as they run it, and what they read out of the answers.
. "$(dirname "$0")/lib.sh"
divvy up --quiet --emulate 8xH100-80GB
divvy shims bin >/dev/null
PATH=$DIVVY_HOME/bin:$PATH
mkdir work && cd work
host=$(hostname -s)
# refuses CODE PATTERN COMMAND...: ends with the code and says so on stderr.
refuses() {
  local code=$1 pattern=$2 got=0
  shift 2
  "$@" >out 2>err || got=$?
  expect "$code" "$got" "the exit status of $*"
  [ -z "$pattern" ] || grep -qE -- "$pattern" err || fail "$* does not say '$pattern' but: $(cat err)"
}
says() { grep -qE -- "$1" <<<"$2" || fail "$3 does not say '$1': $2"; }
sacct_is() { [ "$(sacct -n -X -P -o State -j "$1" | sort -u | xargs)" = "$2" ]; }

# A library that submits pickled functions: an array with steps, followed by sacct.
cat >submission.sh <<'S'
#!/bin/bash

# Parameters
#SBATCH --array=0-3%2
#SBATCH --error=%A_%a_0_log.err
#SBATCH --gpus-per-node=1
#SBATCH --job-name=fit
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --open-mode=append
#SBATCH --output=%A_%a_0_log.out
#SBATCH --signal=USR2@90
#SBATCH --time=5
#SBATCH --wckey=submitit

srun --unbuffered --output %A_%a_%t_log.out --error %A_%a_%t_log.err sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS on $SLURM_JOB_NODELIST"; while [ ! -e go ]; do sleep 0.05; done'
S
array=$(sbatch submission.sh | grep -oE '[0-9]+')
wait_for "two elements" sh -c "[ \$(squeue -h -t R -o %i | wc -l) = 2 ]"
text=$(sacct -o JobID,State,NodeList --parsable2 -j "$array")
says "^JobID\|State\|NodeList$" "$text" "sacct"
says "^${array}_0\|RUNNING\|$host$" "$text" "sacct"
says "^${array}_\[2-3%2\]\|PENDING\|None assigned$" "$text" "sacct"
expect "${array}_0 ${array}_1 ${array}_2 ${array}_3" "$(squeue -h -r -j "$array" -o %i | sort | xargs)" "squeue -r of an array"
expect 2 "$(sacct -j "${array}_0,${array}_1" -n -X -o JobID | wc -l)" "elements by name"
scancel "${array}_3"
touch go
wait_for "the array" queue_is_empty
rm go
expect "1 of 2 on $host" "$(cat "${array}_0_1_log.out")" "the second task's output"
expect "${array}_0 ${array}_1 ${array}_2" "$(sacct -n -X -P -o JobID -s CD -j "$array" | xargs)" "completed elements"
says "^${array}_\[?3\]?\|CANCELLED by $(id -u)$" "$(sacct -n -X -P -o JobID,State -j "$array")" "the element that never began"
expect 1 "$(scontrol show job "$array" | grep -c "ArrayTaskId=0 ")" "element 0 in scontrol show job of its array"

# Workflow engines: status by name, by list, by format; ids that nobody knows are left out of a list.
id=$(sbatch --parsable --job-name 4f2a --output "out_%j.log" --export=ALL --comment "rule_a" -A vision -p gpu --mem 100 --ntasks=1 --cpus-per-task=1 -D "$PWD" --wrap='exit 3')
wait_for "a failed job" sacct_is "$id" FAILED
expect "$id|FAILED" "$(sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime now-2days --endtime now --name 4f2a)" "sacct --name"
expect "$id|3:0|00:00:00" "$(sacct -X -n -P -o jobid,exitcode,suspended -j "$id")" "sacct's exit code"
expect "$id F" "$(squeue --noheader --format='%i %t' --states=all --job "$id,99999")" "squeue of two jobs"
expect "" "$(squeue -h -j "$id")" "squeue of what has ended"
refuses 1 "Invalid job id specified" squeue -j 99999
refuses 1 "Invalid job state specified: XX" squeue -t XX
killed=$(sbatch --parsable --wrap 'kill -9 $$')
wait_for "a killed job" sacct_is "$killed" FAILED
expect "0:9" "$(sacct -X -n -P -o ExitCode -j "$killed")" "the exit code of a killed job"
expect "$killed.batch" "$(sacct -n -P -o JobID -j "$killed.batch")" "one step"
expect "jobid::state" "$(sacct -P --delimiter=:: -o jobid,state -j "$killed" | head -n 1 | tr A-Z a-z)" "sacct's delimiter"
# Every field that there is, as an engine asks for all of them.
fields=$(sacct --helpformat | xargs | tr ' ' ,)
expect "$(tr ',' '\n' <<<"$fields" | wc -l)" "$(sacct -n -X -P --delimiter=$'\n' -o "$fields" -j "$killed" | wc -l)" "all fields of sacct"
expect 1 "$(sacct --json -j "$killed" | grep -c "\"job_id\":$killed,.*\"current\":\"FAILED\".*\"signal_id\":9")" "sacct --json"
expect 1 "$(squeue --json --states=all -j "$killed" | grep -c "\"job_id\":$killed,.*\"current_working_directory\":\"$PWD\"")" "squeue --json"

# What a portal and a notebook server ask.
running=$(sbatch --parsable -J note --gres=gpu:2 -t 30 -c 1 --mem=1G -o %x-%5j.out --wrap 'env >env.txt; sleep 300')
wait_for "the job" sacct_is "$running" RUNNING
wait_for "its environment" test -s env.txt
expect "RUNNING $host" "$(squeue -h -j "$running" -o '%T %B')" "squeue"
expect "$PWD" "$(squeue -h -j "$running" -o %Z)" "the directory"
says "StdOut=$PWD/note-$(printf %05d "$running").out$" "$(scontrol show job "$running")" "scontrol show job"
expect "$host 1" "$(squeue -h -w "$host" -o '%N %D')" "squeue -w"
expect "" "$(squeue -h -w other-host)" "squeue of another host"
expect "$running" "$(SQUEUE_STATES=R SQUEUE_USERS=$(id -un) SQUEUE_FORMAT=%i squeue -h)" "squeue by its variables"
squeue -h -o %all | grep -q "|note|" || fail "squeue -o %all"
says "GRES=gpu:2\(IDX:0-1\)" "$(scontrol -d show job "$running")" "scontrol -d show job"
says "^[0-9]+ +$running " "$(scontrol listpids "$running")" "scontrol listpids"
says "gpu:nvidia_h100_80gb_hbm3:2\(IDX:0-1\)" "$(sinfo -N -h -a --Format='nodehost,gres:100,gresused:100')" "sinfo -O"
expect "gpu" "$(sinfo -h -p gpu -o %P)" "sinfo -p"
expect "main*" "$(sinfo -h -o %P)" "sinfo's default partition"
says "^20[0-9][0-9]$" "$(SLURM_TIME_FORMAT=%Y squeue -h -j "$running" -o %V)" "SLURM_TIME_FORMAT"
for pair in "SLURM_JOB_ID=$running" "SLURM_JOB_NUM_NODES=1" "SLURM_CPUS_PER_TASK=1" "SLURM_GPUS_ON_NODE=2" "SLURM_JOB_GPUS=0,1" "SLURM_MEM_PER_NODE=1024" "ENVIRONMENT=BATCH" "SLURM_SUBMIT_DIR=$PWD" "SLURM_JOB_NODELIST=$host"; do
  grep -qxF "$pair" env.txt || fail "the job has no $pair: $(grep SLURM env.txt)"
done

# Holding, changing, requeuing, signals, cancelling by what a job is.
held=$(sbatch --parsable -H --wrap true)
expect "JobHeldUser" "$(squeue -h -j "$held" -o %r)" "the reason"
scontrol update JobId="$held" Name=other TimeLimit=7
expect "other 7:00" "$(squeue -h -j "$held" -o '%j %l')" "scontrol update"
scontrol release "$held"
wait_for "the released job" sacct_is "$held" COMPLETED
scontrol requeue "$running"
wait_for "the requeued job" sh -c "squeue -h -j $running -o %T | grep -q RUNNING && sacct -n -X -P -o Restarts -j $running | grep -qx 1"
scancel --signal=USR1 "$running"
wait_for "the signal" sacct_is "$running" FAILED
expect "0:10" "$(sacct -n -X -P -o ExitCode -j "$running")" "the exit code after USR1"
again=$(sbatch --parsable --wrap 'sleep 300')
wait_for "the job" sacct_is "$again" RUNNING
scontrol top "$again"
scancel "$again"
one=$(sbatch --parsable -J one --wrap 'sleep 300')
two=$(sbatch --parsable -J two -p cpu --wrap 'sleep 300')
yes n | scancel -i -n one >asked
says "Cancel job_id=$one name=one partition=main \[y/n\]\?" "$(cat asked)" "scancel -i"
scancel -w other-host
scancel -p cpu
wait_for "the job of cpu" sacct_is "$two" "CANCELLED by $(id -u)"
sacct_is "$one" RUNNING || fail "scancel of others cancelled job $one"
expect "$one" "$(squeue --me -h -o %i)" "squeue --me"
expect "" "$(squeue -u nobody -h)" "squeue of another user"
scancel --me
wait_for "all jobs" queue_is_empty
refuses 1 "Kill job error on job id 99999: Invalid job id specified" scancel 99999
refuses 1 "No job identification provided" scancel
refuses 1 "Invalid job id specified for job 99999" scontrol hold 99999
refuses 1 "not done through scontrol" scontrol reconfigure
sbatch -Q --priority=TOP --nice=2000000000 -W --wrap true || fail "a priority of Slurm's is refused"
refuses 5 "" sbatch -W -Q --wrap 'exit 5'

# Several nodes are read in full, and refused in one sentence unless the command line makes one of them.
printf '#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:4\necho "$SLURM_GPUS_ON_NODE"\n' >two.sh
refuses 1 "Batch job submission failed: the job asks for 2 nodes with 4 GPUs on each, 8 in all" sbatch two.sh
refuses 1 "2 nodes with 4 GPUs" sbatch --test-only two.sh
refuses 0 "Job [0-9]+ to start at .* on nodes $host in partition main" sbatch -N1 --test-only two.sh
refuses 1 "heterogeneous job of 2 components" sbatch -n1 : -n2 two.sh
refuses 1 "srun: error: Unable to allocate resources: the job asks for 2 nodes" srun -N2 hostname
refuses 1 "salloc: error: .*2 nodes" salloc -N2 true
id=$(sbatch --parsable -W --nodes=1 two.sh)
expect 4 "$(cat "slurm-$id.out")" "a script of two nodes on one"
refuses 1 "write --gres=gpu:tesla_v100:1" sbatch --gres=gpu:1:tesla:v100 --wrap true

# srun and salloc.
refuses 7 "" srun sh -c 'exit 7'
expect "0 1 2" "$(SLURM_NTASKS=3 srun sh -c 'echo $SLURM_PROCID' | sort | xargs)" "srun's variables"
expect "0,1,2" "$(SALLOC_GRES=gpu:3 salloc -Q sh -c 'echo $CUDA_VISIBLE_DEVICES')" "salloc's variables"
expect "n1 n2 n10" "$(scontrol show hostnames 'n[1-2,10]' | xargs)" "host names"
expect "n[1-3]" "$(scontrol show hostlist n1,n2,n3)" "a host list"
echo "slurm: programs find what they look for"
