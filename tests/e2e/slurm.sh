#!/usr/bin/env bash
# Programs that drive Slurm by its commands: the commands that they run, and the values that they read from the output.
. "$(dirname "$0")/lib.sh"
divvy up --quiet --emulate 8xH100-80GB
divvy shims bin >/dev/null
PATH=$DIVVY_HOME/bin:$PATH
mkdir work && cd work
host=$(hostname -s)
# refuses CODE PATTERN COMMAND...: checks that the command exits with the code and prints the pattern on stderr.
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

# Workflow engines: status by name, by list and by format. A list skips unknown ids.
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
# Every available field, as an engine that requests all of them does.
fields=$(sacct --helpformat | xargs | tr ' ' ,)
expect "$(tr ',' '\n' <<<"$fields" | wc -l)" "$(sacct -n -X -P --delimiter=$'\n' -o "$fields" -j "$killed" | wc -l)" "all fields of sacct"
expect 1 "$(sacct --json -j "$killed" | grep -c "\"job_id\":$killed,.*\"current\":\"FAILED\".*\"signal_id\":9")" "sacct --json"
expect 1 "$(squeue --json --states=all -j "$killed" | grep -c "\"job_id\":$killed,.*\"current_working_directory\":\"$PWD\"")" "squeue --json"

# Queries of a portal and of a notebook server.
running=$(sbatch --parsable -J note --gres=gpu:2 -t 30 -c 1 --mem=1G -o %x-%5j.out --wrap 'env >env && mv env env.txt; sleep 300')
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

# Holding, changing, requeuing, signals, and cancelling by properties of a job.
held=$(sbatch --parsable -H --wrap true)
expect "JobHeldUser" "$(squeue -h -j "$held" -o %r)" "the reason"
scontrol update JobId="$held" Name=other TimeLimit=7
expect "other 7:00" "$(squeue -h -j "$held" -o '%j %l')" "scontrol update"
scontrol release "$held"
wait_for "the released job" sacct_is "$held" COMPLETED
scontrol requeue "$running"
wait_for "the requeued job" sh -c "squeue -h -j $running -o %T | grep -q RUNNING && sacct -n -X -P -o Restarts -j $running | grep -qx 1"
scancel -f --signal=USR1 "$running"
wait_for "the signal" sacct_is "$running" FAILED
expect "0:10" "$(sacct -n -X -P -o ExitCode -j "$running")" "the exit code after USR1"
# --signal alone does not signal the script; -b signals only the script.
trapping=$(sbatch --parsable -o trap.out --wrap 'trap "echo script" USR1; sh -c "trap \"echo other; exit 0\" USR1; echo ready; while :; do sleep 0.05; done" 2>/dev/null; echo went on; while [ ! -e heard ]; do sleep 0.05; done')
wait_for "its first word" grep -q ready trap.out
scancel --signal=USR1 "$trapping"
wait_for "what is no script to end" grep -q "went on" trap.out
expect "ready other went on" "$(xargs <trap.out)" "scancel --signal"
scancel --batch --signal=USR1 "$trapping"
wait_for "the script to hear it" grep -q script trap.out
touch heard
wait_for "the job" sacct_is "$trapping" COMPLETED
rm heard
# An ended job is queued again under its own id. So is an element, and its array with it.
scontrol requeue "$trapping"
wait_for "the job to run again" sacct_is "$trapping" RUNNING
expect 1 "$(sacct -n -X -P -o Restarts -j "$trapping")" "its restarts"
scontrol requeuehold "$trapping"
wait_for "the held job" sh -c "[ \"\$(squeue -h -j $trapping -o '%T %r')\" = 'PENDING JobHeldUser' ]"
scancel "$trapping"
scontrol requeuehold "$trapping"
expect "PENDING JobHeldUser" "$(squeue -h -j "$trapping" -o '%T %r')" "requeuehold of what has ended"
scancel "$trapping"
twice=$(sbatch --parsable -a 0-1 --wrap 'exit 2')
wait_for "the array" sacct_is "$twice" FAILED
scontrol requeuehold "${twice}_1"
expect "PENDING" "$(squeue -h -j "${twice}_1" -o %T)" "an ended element that is requeued"
scancel "${twice}_1"
wait_for "its array" queue_is_empty
refuses 1 "Invalid job id specified for job 99999" scontrol requeue 99999
again=$(sbatch --parsable --wrap 'sleep 300')
wait_for "the job" sacct_is "$again" RUNNING
scontrol top "$again"
scancel "$again"
wait_for "its end" sacct_is "$again" "CANCELLED by $(id -u)"
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
expect "" "$(scancel 99999 2>&1)" "what is not there needs no end"
says "Kill job error on job id 99999: Invalid job id specified" "$(scancel -v 99999 2>&1)" "scancel -v of an unknown job"
refuses 1 "No job identification provided" scancel
refuses 1 "Invalid job id specified for job 99999" scontrol hold 99999
refuses 1 "not done through scontrol" scontrol setdebug info
sbatch -Q --priority=TOP --nice=2000000000 -W --wrap true || fail "a priority of Slurm's is refused"
refuses 5 "" sbatch -W -Q --wrap 'exit 5'

# Steps, while they run and after their job has ended.
cat >steps.sh <<'S'
#!/bin/bash
#SBATCH --gpus=2 --ntasks=2
srun -n2 sh -c 'exit 0'
srun -n1 --gpus=1 sh -c 'exit 3'
srun -n1 sh -c 'kill -9 $$'
srun -n2 sh -c 'touch begun; while [ ! -e go ]; do sleep 0.05; done' &
while [ ! -e begun ]; do sleep 0.05; done
srun -n1 sleep 300 &
wait -n
exit 0
S
stepped=$(sbatch --parsable steps.sh)
wait_for "the fifth step" sh -c "squeue -s -h -o %i -j $stepped | grep -qx $stepped.4"
expect "$stepped.3 $stepped.4 $stepped.batch" "$(squeue -s -h -o %i -j "$stepped" | xargs)" "steps that run"
says "StepId=$stepped.3 .*State=RUNNING .* Tasks=2 Name=sh " "$(scontrol -o show step "$stepped.3")" "scontrol show step"
says "^$stepped.1\|sh\|FAILED\|3:0\|1$" "$(sacct -n -P -o JobID,JobName,State,ExitCode,NTasks -j "$stepped")" "sacct of a job that runs"
touch go
wait_for "the job" sacct_is "$stepped" COMPLETED
expect "$stepped|COMPLETED|0:0
$stepped.batch|COMPLETED|0:0
$stepped.0|COMPLETED|0:0
$stepped.1|FAILED|3:0
$stepped.2|FAILED|0:9
$stepped.3|COMPLETED|0:0" "$(sacct -n -P -o JobID,State,ExitCode -j "$stepped" | grep -vF "$stepped.4")" "steps of a job that has ended"
says "^$stepped.4\|(CANCELLED\|0:9|FAILED\|0:15)$" "$(sacct -n -P -o JobID,State,ExitCode -j "$stepped")" "the step that the job's end took with it"
expect "$stepped.1|3:0" "$(sacct -n -P -o JobID,ExitCode -j "$stepped.1")" "one step by its id"
expect 1 "$(sacct -n -X -o JobID -j "$stepped" | wc -l)" "sacct -X"
expect 6 "$(sacct --json -j "$stepped" | grep -o "\"id\":\"$stepped\.[a-z0-9]*\"" | wc -l)" "steps in JSON"
expect 5 "$(divvy show --json "$stepped" | grep -o '"number":' | wc -l)" "steps in divvy's own JSON"
divvy show "$stepped" | grep -q "1  ended, exit code 3  1 task  GPUs 0 .*sh -c 'exit 3'" || fail "divvy show tells the steps of an ended job"
refuses 1 "" scontrol show step "$stepped.9"
rm go begun
one=$(srun sh -c 'echo $SLURM_JOB_ID $SLURM_TASK_PID $$ $SLURM_UMASK')
expect "$one" "$(awk '{ print $1, $3, $3, $4 }' <<<"$one")" "SLURM_TASK_PID"
expect "$(umask)" "$(awk '{ print $4 }' <<<"$one")" "SLURM_UMASK"
expect "${one%% *}.0" "$(sacct -n -P -o JobID -j "${one%% *}" | sed -n 2p)" "srun's own step"

# Programs that query accounting before they submit.
expect "divvy" "$(sacctmgr -n -P show cluster format=cluster)" "sacctmgr show cluster"
expect "$(id -un)" "$(sacctmgr -n -P list user "$(id -un)" format=user)" "sacctmgr list user"
expect "root" "$(sacctmgr show associations where user="$(id -un)" format=account -nP | sort -u)" "sacctmgr show assoc"
divvy teams add vision --weight 3 --user "$(id -un)" >/dev/null
expect "vision" "$(sacctmgr -nP show assoc user="$(id -un)" account=vision format=account)" "a team is an account"
expect "vision|normal" "$(sacctmgr -nP show user "$(id -un)" withassoc format=account,qos | grep vision)" "sacctmgr show user withassoc"
refuses 1 "divvy teams" sacctmgr -i add account other
refuses 1 "Unknown field" sacctmgr show user format=nonsense
says "^ vision\|\|3$" "$(sshare -n -P -a -o account,user,rawshares)" "sshare"
waits=$(sbatch --parsable -H --priority=5 --wrap true)
says "^ *$waits +5$" "$(sprio -h -o '%.15i %.10Y' -j "$waits")" "sprio"
# Programs that drive Slurm: numeric user ids, separators after a colon, statistics of the scheduler, and a job that
# requeues itself and reads the answer.
expect "slurm 22.05.8" "$(squeue --version)" "--version is three numbers"
expect "$waits" "$(squeue -h -u "$(id -u)" -o %i -j "$waits")" "a user by number"
expect "$waits###PENDING###" "$(squeue -h -j "$waits" -O 'jobid:###,state:###')" "a separator behind a colon"
refuses 1 "Invalid user name: nosuchuser" scancel -u nosuchuser
says "^Jobs pending: +[1-9]" "$(sdiag)" "sdiag"
says "^Jobs completed: +[1-9]" "$(sdiag)" "sdiag reads the metrics"
says "Total cycles: [1-9]" "$(sdiag)" "sdiag counts decisions"
says "^SchedulerTimeSlice +=" "$(scontrol show config)" "what toil asks for"
scancel "$waits"
divvy teams remove vision >/dev/null
# shellcheck disable=SC2016
again=$(sbatch --parsable -o again-%j.out --open-mode=append --wrap \
  '[ -n "$SLURM_RESTART_COUNT" ] || { trap : TERM; scontrol requeue "$SLURM_JOB_ID"; echo "asked: $?"; exit; }; echo "run again"')
wait_for "a job that requeued itself to run again" grep -q "run again" "again-$again.out"
says "^asked: 0$" "$(cat "again-$again.out")" "scontrol requeue inside the job itself"

# A request for several nodes is parsed completely. It is refused with one message unless the command line changes it to
# one node.
printf '#!/bin/bash\n#SBATCH --nodes=2 --gres=gpu:4\necho "$SLURM_GPUS_ON_NODE"\n' >two.sh
refuses 1 "Batch job submission failed: Requested node configuration is not available: the job requests 2 nodes with 4 GPUs each, 8 in total" sbatch two.sh
refuses 1 "2 nodes with 4 GPUs" sbatch --test-only two.sh
refuses 0 "Job [0-9]+ to start at .* on nodes $host in partition main" sbatch -N1 --test-only two.sh
all=$(sbatch --parsable --gpus=8 -t 10 --wrap 'sleep 300')
wait_for "the job on all GPUs" sacct_is "$all" RUNNING
refuses 0 "sbatch: Job [0-9]+ to start at 20.* using 4 processors on nodes $host in partition gpu" sbatch --test-only --gpus=1 -n4 -p gpu --wrap true
refuses 0 "srun: Job [0-9]+ to start at " srun --test-only --gpus=1 hostname
refuses 0 "salloc: Job [0-9]+ to start at " salloc --test-only --gpus=1
refuses 1 "sbatch: error: allocation failure: .*9 GPUs" sbatch --test-only --gpus=9 --wrap true
expect "$all" "$(squeue -h -o %i)" "nothing that was only tested is in the queue"
scancel "$all"
refuses 1 "two types of GPU in one option" sbatch --gres=gpu:a100:1,gpu:h100:1 --wrap true
refuses 1 "srun: error: Unable to allocate resources: Requested node configuration is not available: the job requests 2 nodes" srun -N2 hostname
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

# The hooks that srun runs around each task, and its messages about options without effect.
cat >prolog.sh <<'S'
#!/bin/sh
echo "export FROM_PROLOG=$SLURM_PROCID and more"
echo "unset UNWANTED"
echo "print said by the prolog"
S
printf '#!/bin/sh\necho "after task $SLURM_PROCID"\n' >epilog.sh
chmod +x prolog.sh epilog.sh
# shellcheck disable=SC2016
hooks=(--task-prolog="$PWD/prolog.sh" --task-epilog="$PWD/epilog.sh" sh -c 'echo "[$FROM_PROLOG] [$UNWANTED]"; exit 3')
code=0
UNWANTED=1 srun -n2 "${hooks[@]}" >out 2>err || code=$?
expect 3 $code "a task's code between its hooks: $(cat err)"
expect "said by the prolog said by the prolog [0 and more] [] [1 and more] []  after task 0 after task 1" \
  "$(grep said out | xargs) $(grep '^\[' out | sort | xargs)  $(grep after out | sort | xargs)" "prolog and epilog of tasks"
divvy show @ | grep -q "exit code 3  2 tasks  .*s  sh -c 'echo" || fail "a step is listed by its hooks: $(divvy show @)"
inside=$(sbatch --parsable -W -o in.out --wrap 'SLURM_TASK_PROLOG=$PWD/prolog.sh srun --bcast -Z --prolog=/bin/date --mysite-flag sh -c "echo [\$FROM_PROLOG]"')
expect "[0 and more]" "$(grep '^\[' in.out)" "SLURM_TASK_PROLOG inside job $inside"
for option in bcast no-allocate prolog=/bin/date mysite-flag; do
  expect 1 "$(grep -c "note: --$option: " in.out)" "notes on --$option: $(cat in.out)"
done
refuses 0 "note: --bcast: the program is started where it is" srun --bcast true
expect 1 "$(srun -l --epilog=/bin/date -X true 2>&1 | grep -c 'note: --epilog')" "a note is told once"
refuses 0 "note: --mysite-option=4: not one of Slurm's own" sbatch --mysite-option=4 -W --wrap true
refuses 1 "write 'srun ... &'" srun --async true
expect "MPI plugin types are... none" "$(srun --mpi=list | xargs)" "srun --mpi=list"
srun -Q --whole --treewidth=16 --external-launcher true || fail "options of Slurm's own are refused"
printf '#!/bin/sh\nulimit -Sn\n' >limit.sh
expect "100" "$(ulimit -Sn 100 && sbatch -Q -W -o limit.out limit.sh && cat limit.out)" "limits go with the job"
[ "$(ulimit -Sn 100 && sbatch -Q -W -o limit.out --propagate=NONE limit.sh && cat limit.out)" != 100 ] || fail "--propagate=NONE keeps limits"
sbatch -Q -W -a 12 -o 'digit-%b.out' --wrap true && [ -e digit-2.out ] || fail "%b is no pattern: $(ls)"

# Filters work, and queries about one process or node are answered.
keyed=$(sbatch --parsable -W --wckey=blue -t 47 --wrap true)
expect "$keyed" "$(sacct -n -X -P -o JobID -W blue)" "sacct -W"
expect "$keyed" "$(sacct -n -X -P -o JobID -k 47)" "sacct -k"
expect "" "$(sacct -n -X -P -o JobID -j "$keyed" -k 48 -K 60)" "sacct -k -K"
expect "" "$(sacct -n -X -P -o JobID -j "$keyed" -i 2)" "sacct -i"
expect "$keyed" "$(sacct -n -X -P -o JobID -j "$keyed" -i 1-2 -I 1 -F SchedMain -R None)" "sacct -i -I -F -R"
expect "" "$(sacct -n -X -P -o JobID -j "$keyed" -R Resources)" "sacct -R"
refuses 1 "associations have no ids" sacct -x 3
held=$(sbatch --parsable -Q -H -L matlab:2 --reservation=course --wrap true)
expect "$held" "$(squeue -h -o %i -L matlab -R course)" "squeue -L -R"
expect "" "$(squeue -h -o %i -L other)" "squeue -L other"
expect "" "$(squeue -h -o %i -R other)" "squeue -R other"
scancel "$held"
expect "" "$(sinfo -h --dead)" "sinfo --dead"
says "$host" "$(sinfo -h --responding -F)" "sinfo --responding"
expect "No reservations in the system" "$(sinfo -T)" "sinfo -T"
noted=$(sbatch --parsable -t 10 -o noted.out --wrap 'echo $$ >pid; until [ -e go ]; do sleep 0.05; done')
wait_for "its process" test -s pid
says "^Slurm JobId=$noted ends at .* 20[0-9][0-9]$" "$(scontrol pidinfo "$(cat pid)")" "scontrol pidinfo"
refuses 1 "Invalid job id" scontrol pidinfo 1
says "^$noted +batch$" "$(scontrol liststeps)" "scontrol liststeps"
scontrol notify "$noted" "well done" || fail "scontrol notify"
wait_for "the message" grep -qx "scontrol: well done" noted.out
expect "" "$(scontrol completing)" "scontrol completing"
says "^$host: " "$(scontrol getaddrs "$host")" "scontrol getaddrs"
expect "$host" "$(scontrol show aliases)" "scontrol show aliases"
says "^Active Jobs +=.* $noted|^Active Jobs += $noted" "$(scontrol show slurmd)" "scontrol show slurmd"
says "Association Records" "$(scontrol show assoc_mgr)" "scontrol show assoc_mgr"
# JSON and YAML of every listing.
says "\"partitions\":\[\{\"name\":\"main\"" "$(scontrol show partition --json)" "scontrol show partition --json"
says "\"id\":\"$noted.batch\"" "$(scontrol show step "$noted" --json)" "scontrol show step --json"
says "\"reservations\":\[\]" "$(scontrol show reservation --json)" "scontrol show reservation --json"
says "\"ClusterName\":\"divvy\"" "$(scontrol show config --json)" "scontrol show config --json"
says "\"ping\":\"UP\"" "$(scontrol ping --json)" "scontrol ping --json"
says "\"jobs_running\":1" "$(sdiag --json)" "sdiag --json"
says "\"associations\":\[\{\"account\":" "$(sacctmgr --json show assoc)" "sacctmgr --json"
says "\"shares\":\[" "$(sshare -a --json)" "sshare --json"
says "\"jobs\":\[\]" "$(sprio --json)" "sprio --json"
says "^  job_state: RUNNING$" "$(squeue --yaml -j "$noted")" "squeue --yaml"
says "^    current: RUNNING$" "$(sacct --yaml -j "$noted")" "sacct --yaml"
says "^- name: " "$(sinfo --yaml)" "sinfo --yaml"
for command in squeue sinfo sacct scontrol sdiag sacctmgr sshare sprio; do
  expect "data_parser/v0.0.38" "$($command --json=list | tail -n 1)" "$command --json=list"
done
refuses 0 "note: --json=v0.0.37: the fields are those of v0.0.38" squeue --json=v0.0.37
grep -q '"jobs":' out || fail "squeue --json=v0.0.37"
says "\"job_state\":\[\"[A-Z]*\"\]" "$(DIVVY_SLURM_JSON=v0.0.40 squeue --json)" "squeue with the newer schema"
says "\"current\":\[\"FAILED\"\]" "$(sacct --json=v0.0.40 -j "$killed")" "sacct with the newer schema"
touch go
wait_for "them" queue_is_empty
rm go pid

# Errors use the command's own name and Slurm's options. No check promises what a submission refuses later.
refuses 1 "^sbatch: error: Batch job submission failed: .*; --gpus=8 is the maximum" sbatch --gpus=99 --wrap true
refuses 1 "^srun: error: Unable to allocate resources: .*; --gres=gpu:8 is the maximum" srun --gres=gpu:99 true
refuses 1 "^salloc: error: Job submit/allocate failed: .*; --gpus-per-node=8 is the maximum" salloc --gpus-per-node=99 true
refuses 1 "^sbatch: error: allocation failure: .*--mem=" sbatch --test-only --mem=1P --wrap true
refuses 1 "^squeue: error: Invalid sort specification: zz" squeue --sort=zz
refuses 1 "asks for 99 GPUs" divvy submit --dry-run --gpus 99 -- true
printf '#!/bin/sh\n#SBATCH --gpus=99\ntrue\n' >large.sh
refuses 1 "^divvy: the job would be rejected here: the job asks for 99 GPUs" divvy explain large.sh
# The message uses the options of sbatch, which refuses the job in the same way.
printf '#!/bin/bash\n#SBATCH --cpus-per-task=9999\ntrue\n' >wide.sh
refuses 1 "--cpus-per-task=$(nproc) is the maximum" divvy explain wide.sh
refuses 1 "--cpus-per-task=$(nproc) is the maximum" sbatch wide.sh
expect "would submit: 2 GPUs" "$(divvy submit --dry-run --gpus 2 -- true | cut -c1-20)" "a dry run"
refuses 3 "there is no job 999" divvy show 999
refuses 3 "there is no job 999" divvy hold 999
divvy submit --quiet --param x=1,2 -- echo '{y}' 2>err >/dev/null
grep -q '{y} is not replaced, because no --param has that name' err || fail "a word in braces: $(cat err)"
wait_for "them" queue_is_empty

# Wait reasons in Slurm's terms: a singleton, and an element of a capped array.
hold=$(sbatch --parsable -J like --wrap 'until [ -e like ]; do sleep 0.02; done')
like=$(sbatch --parsable -J like -d singleton --wrap true)
capped=$(sbatch --parsable -a 0-9%1 --wrap 'until [ -e like ]; do sleep 0.02; done')
wait_for "the first element" sh -c "squeue -h -t R -j $capped | grep -q ."
expect "(Dependency)" "$(squeue -h -j "$like" -o %r | sed 's/.*/(&)/')" "a singleton's reason"
says " Reason=JobArrayTaskLimit " "$(scontrol show job "${capped}_5")" "an element that waits"
# Ctrl-C to srun outside a job: the first one warns, the second one ends the step. A step that scancel ends is
# CANCELLED.
srun --gres=gpu:1 sh -c 'echo begun; exec sleep 600' >ours 2>told </dev/null &
srun=$!
wait_for "its start" grep -q begun ours
interrupt_twice $srun told
grep -q "one more within 1 sec" told || fail "the first Ctrl-C: $(cat told)"
wait $srun && code=0 || code=$?
expect 130 $code "the second Ctrl-C: $(cat told)"
stepped=$(sbatch --parsable --wrap 'srun sleep 600; until [ -e like ]; do sleep 0.02; done')
wait_for "its step" sh -c "squeue -h -s -j $stepped | grep -q '$stepped\\.0'"
scancel "$stepped.0"
wait_for "its end" sh -c "sacct -n -P -j $stepped -o jobid,state,exitcode | grep -q '^$stepped.0|CANCELLED[^|]*|0:15'"
touch like
wait_for "all of these" queue_is_empty

# A deadline: the job ends by then, or does not start at all.
later=$(sbatch --parsable --deadline=now+1hour -H --wrap true)
says " Deadline=20" "$(scontrol show job "$later")" "a deadline"
says "leaves the queue in" "$(divvy why "$later")" "why of what has to be over by a time"
scancel "$later"
runs=$(sbatch --parsable --deadline=now+3 --wrap 'exec sleep 600')
waits=$(sbatch --parsable --deadline=now+3 -H --wrap true)
wait_for "their end" queue_is_empty
expect "$runs|DEADLINE $waits|DEADLINE" "$(sacct -X -n -P -j "$runs,$waits" -o jobid,state | xargs)" "sacct of what is over by its deadline"
expect "$runs $waits" "$(sacct -X -n -P -s DEADLINE -o jobid | sort -n | xargs)" "sacct -s DEADLINE"
expect "" "$(sacct -X -n -P -s TIMEOUT -o jobid | xargs)" "sacct -s TIMEOUT"
refuses 1 "the job cannot end by its deadline" sbatch --deadline=now+1hour -t 2:00:00 --wrap true

# Links next to a copy of divvy.
mkdir -p copied
cp "$(readlink -f "$(command -v divvy)")" copied/divvy
divvy shims copied >/dev/null || fail "no links beside a copy of divvy"
[ ! -L copied/divvy ] && [ -L copied/sbatch ] || fail "the copy was replaced"
echo other >copied/divvy
refuses 1 "is another program" divvy shims copied

echo "slurm: programs find the expected variables and commands"
