#!/usr/bin/env bash
# divvy update: the command, the output and the dependencies of a queued job can change until it starts, also over a
# kill -9 of the daemon. A running job keeps the values that it was started with.
. "$(dirname "$0")/lib.sh"
up() { divvy up --quiet --emulate 2xH100-80GB; }
# refused TEXT COMMAND...: checks that the command fails with this message.
refused() {
  local text=$1 said
  shift
  if said=$("$@" 2>&1); then fail "not refused: $*"; fi
  case $said in *"$text"*) ;; *) fail "$*: wanted '$text', got '$said'" ;; esac
}
up
blocker=$(divvy submit --quiet --gpus 2 -- sh -c 'while [ ! -e go ]; do sleep 0.02; done')
wait_for "the blocker" state_is "$blocker" running

job=$(divvy submit --quiet --gpus 2 --env A=old -- sh -c 'echo old')
mkdir there
divvy update "$job" --gpus 1 --output 'out-%j' --chdir there --env A=new --name renamed --comment why \
  -- sh -c 'echo "new $A $PWD"; echo problem >&2' | grep -q "changed command, output, chdir, env, gpus, name, comment" || fail "the answer"
divvy update "$job" --error 'err-%j' >/dev/null
# The audit log has the new values, but for command and environment only that they were changed.
grep 'POST /v1/jobs/update' audit.log | head -n 1 >changed
for words in '\\"gpus\\":1' '\\"name\\":\\"renamed\\"' '\\"environment\\":\[\\"A=...\\"\]'; do
  grep -q "$words" changed || fail "the audit log has no $words: $(cat changed)"
done
grep -q 'problem\|new' changed && fail "the audit log has its command: $(cat changed)"
script=$(divvy submit --quiet --gpus 1 -- false)
printf '#!/bin/sh\necho "script $1"\n' >other.sh
divvy update "$script" --script other.sh --output script.out -- word >/dev/null
array=$(divvy submit --quiet --gpus 1 --array 0-3 -- sh -c 'echo "all $DIVVY_ARRAY_INDEX" >>array.out')
divvy update "${array}_2" -- sh -c 'echo "alone $DIVVY_ARRAY_INDEX" >>array.out' >/dev/null
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up
expect renamed "$(field "$job" name)" "the name after a restart"

# All changes are applied, or none.
refused "--gpus 2 is the maximum" divvy update "$job" --gpus 3 --name other
expect renamed "$(field "$job" name)" "the name after a refused change"
refused "its command, gpus cannot change any more" divvy update "$blocker" --gpus 1 -- true
divvy update "$blocker" --time 1h --comment running >/dev/null
elastic=$(divvy submit --quiet --gpus 1 --team vision -- sh -c 'echo $DIVVY_GPU_COUNT >elastic.out')
divvy update "$elastic" --gpus 1..2 --topology numa --placement best --preemptible requeue >/dev/null
divvy show "$elastic" | tr -s ' ' | grep -q 'requests 1..2 GPUs, topology numa' || fail "show of the elastic job"
divvy show "$elastic" | tr -s ' ' | grep -q 'preemptible requeue' || fail "show of its preemption"
refused "is the maximum" divvy update "$elastic" --gpus 3..8
refused "the team of a job cannot change" divvy update "$elastic" --team other
divvy cancel "$elastic" >/dev/null
refused "is not an array" divvy update "$job" --at-once 2
refused "the elements of an array cannot change" divvy update "$job" --array 0-3
refused "has ended already" sh -c "divvy cancel $(divvy submit --quiet --hold -- true) && divvy update @ --gpus 1"

# A job cannot wait for itself.
last=$(divvy submit --quiet --gpus 1 --after "$array" -- true)
refused "$array would wait for itself: $array after $last after $array" divvy update "$array" --dependency "afterany:$last"
refused "would wait for itself: ${array}_1 after $last after $array after ${array}_1" divvy update "${array}_1" --after "$last"
divvy update "$last" --dependency "afterok:$job?afterok:$script" >/dev/null

touch go
wait_for "an empty queue" queue_is_empty
expect "new new $DIVVY_HOME/there" "$(cat "there/out-$job")" "the output of the changed job"
expect problem "$(cat "there/err-$job")" "its errors"
expect "script word" "$(cat script.out)" "the output of the script"
expect "all 0 all 1 all 3 alone 2" "$(sort array.out | tr '\n' ' ' | sed 's/ $//')" "the output of the array"
expect succeeded "$(field "$last" state)" "the last one"
echo "update: command, files, environment, script, element and dependencies can be changed"
