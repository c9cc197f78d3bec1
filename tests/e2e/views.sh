#!/usr/bin/env bash
# Output for users: why a job waits and which jobs hold what it needs, array elements by their user-visible names, logs
# of whole arrays, labels.
. "$(dirname "$0")/lib.sh"
divvy up --quiet --emulate 2xH100-80GB
says() { # says PATTERN TEXT WHAT
  grep -qE -- "$1" <<<"$2" || fail "$3 does not say '$1': $2"
}
says_not() {
  if grep -qE -- "$1" <<<"$2"; then fail "$3 says '$1': $2"; fi
}

# An array of two holds both GPUs. Its elements have the internal ids 2 and 3, which no user should see.
array=$(divvy submit --quiet --gpus 1 --array 0-1 --name sweep --time 2h -- sh -c 'while [ ! -e go ]; do sleep 0.05; done')
wait_for "the array" running_are 2
job=$(divvy submit --quiet --gpus 2 --name big -- true)
wait_for "the job in the queue" state_is "$job" queued
text=$(divvy why "$job")
says "^Job $job \(big\) waits: it needs 2 GPUs, none is free; it should start in (2 h|1 h 59 min)\.$" "$(head -n 1 <<<"$text")" "the first sentence of why"
says "jobs? ${array}_(0|\[0-1\]) +sweep +$(id -un) +GPUs? 0(-1)? +ends by .*, in (2 h|1 h 59 min)" "$text" "why"
says "will start .*jobs ${array}_0 and ${array}_1 " "$text" "why"
says_not "jobs? ($((array + 1))|$((array + 2)))\b" "$text" "why"
says "^ +0 .* ${array}_0 .*sweep" "$(divvy gpus)" "the list of GPUs"
# On a narrow terminal, the columns for use and memory stay and the model is dropped. The users of a GPU are listed
# below it, once.
narrow=$(script -qec "stty cols 40; NO_COLOR=1 divvy gpus" /dev/null | tr -d '\r')
says "USE +MEMORY" "$narrow" "GPUs in 40 columns"
expect 2 "$(echo "$narrow" | grep -c "^    sweep")" "times that 40 columns say who has the two GPUs: $narrow"
if echo "$narrow" | grep -qE "WHO|[0-9] +sweep"; then fail "it is there twice: $narrow"; fi
# A range covers all jobs in it; an array counts as one.
expect "job $array,job $job" "$(divvy show "$array-$job" | grep -E '^job' | sed 's/  .*//' | paste -sd,)" "show of a range"
expect 1 "$(divvy why "$job-$((job + 90))" | grep -c "^Job")" "why of a range"
code=0; divvy wait 900-910 2>none || code=$?
expect 3 $code "wait for a range without a job"
says "there is no job '900-910'" "$(cat none)" "wait for a range without a job"
dated=$(divvy submit --quiet --hold --name 2026-11 -- true)
says "^job $dated +2026-11" "$(divvy show 2026-11)" "a name that looks like a range"
divvy cancel "$dated" >/dev/null
one=$(divvy submit --quiet --gpus 2 --after "${array}_1" -- true)
says "waits for job ${array}_1 to end" "$(divvy why "$one")" "why of a dependent job"
says "job ${array}_1 +sweep .*GPU 1 " "$(divvy why "$one")" "why of a dependent job"
held=$(divvy submit --quiet --hold -- true)
says "starts now +divvy release $held" "$(divvy why "$held")" "why of a held job"
divvy cancel "$held" >/dev/null
capped=$(divvy submit --quiet --array 0-1%1 -- sh -c 'while [ ! -e go ]; do sleep 0.05; done')
wait_for "the first element" state_is "${capped}_0" running
says "starts now +divvy update $capped --at-once 2" "$(divvy why "$capped")" "why of a capped array"
touch go
wait_for "all of them" queue_is_empty
says "Job $job \(big\) succeeded " "$(divvy why "$job")" "why of a job that has ended"
# Ranges and elements also find ended jobs.
expect "job $array,job $job" "$(divvy show "$array-$job" | grep -E '^job' | sed 's/  .*//' | paste -sd,)" "show of a range that has ended"
expect "job ${array}_0,job ${array}_1" "$(divvy metrics "${array}_[0-1]" | grep -E '^job' | paste -sd,)" "metrics of elements"
expect "job ${array}_0,job ${array}_1" "$(divvy show "${array}_0-1" | grep -E '^job' | sed 's/  .*//' | paste -sd,)" "show of elements"
says "^Job $array is an array; name one of its elements: divvy metrics ${array}_0-1$" "$(divvy metrics "$array")" "metrics of an array"
divvy wait "${array}_0-1" >/dev/null || fail "wait for elements that have ended"

# One line, which shows the count once.
text=$(divvy submit --array 5-7%2 --name logs -- sh -c 'echo "one $DIVVY_ARRAY_INDEX"; echo "two $DIVVY_ARRAY_INDEX"')
says "^array [0-9]+: 3 elements, 2 at a time; each asks for no GPU$" "$text" "submit"
array=$(grep -oE "^array [0-9]+" <<<"$text" | cut -d' ' -f2)
divvy logs -f "$array" >followed
wait_for "the array of logs" queue_is_empty
expect "$(for i in 5 6 7; do echo "==> ${array}_$i <==" && echo "one $i" && echo "two $i" && { [ $i = 7 ] || echo; }; done)" "$(divvy logs "$array")" "the logs of an array"
expect "$(for i in 5 6 7; do echo "one $i" && echo "two $i"; done | sort)" "$(grep -E '^(one|two)' followed | sort)" "the followed logs"
expect 3 "$(divvy logs "$array" -n 1 | grep -c "^two")" "the last lines"
expect "two 6" "$(divvy logs "${array}_6" -n 1)" "the log of one element"
later=$(divvy submit --quiet --hold --array 0-1 -- true)
if divvy logs "$later" 2>none; then fail "an array that has not started has logs"; fi
says "no element of array $later has started" "$(cat none)" "logs"
divvy cancel "$later" >/dev/null

# Labels: jobs are listed, filtered and cancelled by them, also after a restart.
divvy shims bin >/dev/null
printf '#!/bin/bash\n#SBATCH -p gpu -A vision --qos=high --hold\ntrue\n' >s.sh
first=$(bin/sbatch --parsable s.sh)
other=$(bin/sbatch --parsable -p cpu s.sh)
plain=$(divvy submit --quiet --hold -- true)
check_labels() {
  expect "$first" "$(bin/squeue -h -p gpu -o %i)" "squeue -p gpu"
  expect "$first $other" "$(bin/squeue -h -A vision -S i -o %i | xargs)" "squeue -A vision"
  expect "" "$(bin/squeue -h -q low -o %i)" "squeue -q low"
  expect "$plain" "$(bin/squeue -h -p main -o %i)" "squeue -p main"
  expect "gpu vision high" "$(bin/squeue -h -j "$first" -o '%P %a %q')" "squeue's columns"
  expect "$first|gpu|vision|high" "$(bin/sacct -n -P -X -r gpu -o JobID,Partition,Account,QOS)" "sacct -r gpu"
  says "^pool +gpu" "$(divvy show "$first")" "show"
}
check_labels
divvy down >/dev/null
divvy up --quiet --emulate 2xH100-80GB
check_labels
bin/scancel -p cpu
expect "$first" "$(bin/squeue -h -A vision -o %i)" "squeue after scancel -p cpu"
state_is "$plain" held || fail "scancel -p cpu cancelled a job of no partition"
if divvy cancel "$plain" --state running | grep -q cancelled; then fail "a held job counts as running"; fi
state_is "$plain" held || fail "cancel --state running cancelled a held job"
echo "views: passed"
