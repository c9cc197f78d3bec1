#!/usr/bin/env bash
# Jobs from the command line: exit codes, streams, order, holds, dependencies, arrays, cancelling, and refusals.
. "$(dirname "$0")/lib.sh"
divvy up --quiet --emulate 8xH100-80GB
divvy up >second 2>&1 && fail "a second up was accepted"
grep -q "pid" second || fail "the second up does not say who runs"

code=0; divvy run --gpus 1 -- sh -c 'exit 3' || code=$?
expect 3 "$code" "the exit code of divvy run"
expect "in:7" "$(echo in:7 | divvy run cat)" "the streams of divvy run"
expect "" "$(divvy run cat <&-)" "what a job reads where standard input is closed"
divvy run -- sh -c 'echo said; echo said >&2' >&- 2>&- || fail "a job whose caller has closed its output"
expect 0,1 "$(divvy run --gpus 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" "the GPUs that a job sees"

divvy submit --gpus 9 -- true 2>refusal && fail "nine of eight GPUs were accepted"
grep -q 8 refusal || fail "the refusal does not name what is possible"
code=0; divvy show 99999 2>/dev/null || code=$?
expect 3 "$code" "the exit code of divvy show without such a job"

big=$(divvy submit --quiet --gpus 8 -- sleep 60)
wait_for "the large job" state_is "$big" running
small=$(divvy submit --quiet --gpus 1 -- true)
after=$(divvy submit --quiet --after "$small" -- sh -c 'echo after')
divvy why "$small" | grep -q "needs 1 GPU" || fail "why does not say what is missing"
expect "needs 1 GPU, none is free" "$(field "$small" reason)" "the reason in a listing"
cpu=$(divvy submit --quiet -- true)
wait_for "the job without GPUs, which waits for nobody" state_is "$cpu" succeeded
divvy cancel "$big" >/dev/null
wait_for "the cancelled job" state_is "$big" cancelled
wait_for "the small job" state_is "$small" succeeded
wait_for "the dependent job" state_is "$after" succeeded
expect after "$(divvy logs "$after")" "the log"

held=$(divvy submit --quiet --hold --gpus 1 -- true)
state_is "$held" held || fail "a held job is $(field "$held" state)"
divvy release "$held" >/dev/null
wait_for "the released job" state_is "$held" succeeded

# Submissions that cannot run are refused at once, by submit, run and explain alike.
refused() { # TEXT COMMAND...
  local said
  if said=$("${@:2}" 2>&1); then fail "not refused: ${*:2}"; fi
  grep -qF -- "$1" <<<"$said" || fail "${*:2} says '$said', not '$1'"
}
echo 'print(1)' >train.py
refused "'train.py' has no #! line that names its interpreter; write: divvy submit -- python3 train.py" divvy submit train.py
refused "'train.py' has no #! line that names its interpreter; write: divvy submit -- python3 train.py" divvy explain train.py
refused "there is no program 'sleep 5'; remove the quotes: divvy submit sleep 5; or run it with a shell: divvy submit -- sh -c 'sleep 5'" divvy submit 'sleep 5'
refused "there is no program 'sleep 5'; remove the quotes: divvy run sleep 5;" divvy run -- 'sleep 5'
chmod +x train.py
refused "'train.py' is in this directory, but a name without '/' is searched only in PATH; write: divvy submit ./train.py" divvy submit train.py
printf '#!/bin/sh\nexit 7\n' >train.py
expect 7 "$(divvy submit --quiet --wait train.py >/dev/null && echo 0 || echo $?)" "a script that is named by its first line"
divvy explain train.py >/dev/null || fail "explain refuses what submit takes"
refused "there is no command 'ps'; did you mean divvy queue?" divvy ps
refused "is ambiguous; did you mean --gpus?" divvy submit --gpu 1 -- true
refused "there is no GPU 42; the GPUs are 0-7" divvy metrics --gpu 42

fails=$(divvy submit --quiet --name parent -- false)
refused "'nobody' is neither a job id nor the name of a job" divvy submit -d afterany:nobody -- true
named=$(divvy submit --quiet -d afterany:parent -- true)
wait_for "the job that waits for another by its name" state_is "$named" succeeded
never=$(divvy submit --quiet --dependency "afterok:$fails" -- true)
wait_for "the job whose dependency failed" state_is "$never" cancelled

array=$(divvy submit --quiet --gpus 1 --array 0-9%3 -- sh -c 'exit $((DIVVY_ARRAY_INDEX == 4))')
wait_for "the array" state_is "$array" failed
state_is "${array}_4" failed || fail "element 4 is $(field "${array}_4" state)"
state_is "${array}_5" succeeded || fail "element 5 is $(field "${array}_5" state)"

# A sweep whose jobs have their own names. Waiting ones are shown with the template, also after a restart.
sweep=$(divvy submit --quiet --gpus 4 --param lr=1e-3,1e-4 --param seed=0:1 --name-template 'train-{lr}-{seed}' -- \
  sh -c 'until [ -e go ]; do sleep 0.02; done')
wait_for "the sweep's first" state_is train-1e-3-0 running
expect 'train-{lr}-{seed}' "$(field "$sweep" name)" "the name of the rest"
kill -9 "$(daemon_pid)"
divvy up --quiet --emulate 8xH100-80GB
touch go
wait_for "the sweep" state_is "$sweep" succeeded
expect "train-1e-3-0 train-1e-3-1 train-1e-4-0 train-1e-4-1" \
  "$(divvy queue --all --csv -o name | grep '^train-1e-' | sort | tr '\n' ' ' | sed 's/ $//')" "the sweep's names"

timed=$(divvy submit --quiet --time 1s --grace 1s -- sleep 60)
wait_for "the job past its limit" state_is "$timed" timed_out
orphan=$(divvy submit --quiet --gpus 1 -- sh -c 'setsid sleep 1000 & echo $! >left; exit 5')
wait_for "the job that leaves a process behind" state_is "$orphan" failed
expect 5 "$(field "$orphan" exit_code)" "its exit code"
[ ! -e "/proc/$(cat left)" ] || fail "what the job left behind still runs"

# An element of an array waits for those before it, because only one runs at a time.
array=$(divvy submit --quiet --array '0-5%1' --time 10m -- sleep 600)
wait_for "its first element" state_is "${array}_0" running
divvy why "${array}_3" | grep -qE "; 2 elements of its array go before it; it should start (within a minute|in [0-9]+ min)" || fail "why says of its fourth: $(divvy why "${array}_3")"
divvy why "$array" | grep -qE "the next one should start (within a minute|in [0-9]+ min)" || fail "why says of the array: $(divvy why "$array")"
divvy cancel "$array" >/dev/null
echo "jobs: passed"
