#!/usr/bin/env bash
# A server with 64 GPUs: jobs get each of them and all of them: as single jobs, as tasks of one job, in an elastic job,
# and in MIG instances on GPUs 40 and 63; also over a kill -9 of the daemon.
. "$(dirname "$0")/slices_lib.sh"
. "$(dirname "$0")/lib.sh"
export WAIT_S=120
printf '[gpus]\nmig = "auto"\n' >"$DIVVY_HOME/divvy.toml"

! divvy up --quiet --emulate 65xH100-80GB 2>message || fail "a server has 65 GPUs"
grep -q "the description has 65 GPUs, but a node can have at most 64: use 64 or fewer" message || fail "says: $(cat message)"
up() { divvy up --quiet --emulate 64xH100-80GB; }
up
expect 64 "$(divvy gpus --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" "GPUs"
every=$(seq -s , 0 63)

# 64 jobs use one GPU each.
divvy submit --quiet --gpus 1 --array 0-63 -- sh -c 'echo "$CUDA_VISIBLE_DEVICES" >"gpu-$DIVVY_ARRAY_INDEX"; until [ -e go ]; do sleep 0.2; done' >/dev/null
wait_for "64 jobs" running_are 64
all=$(divvy submit --quiet --gpus 64 -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"')
divvy why "$all" >why
grep -q "needs 64 GPUs" why || fail "why it waits: $(cat why)"
touch go
wait_for "the job of all" state_is "$all" succeeded
expect "$every" "$(sort -n gpu-* | paste -sd , -)" "the GPUs of the 64 jobs"
expect "$every" "$(divvy logs "$all")" "the GPUs of the job of all"

# One task on each GPU; each task sees its own GPU first.
divvy run --tasks 64 --gpus-per-task 1 --gpu-bind single -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"' >tasks
expect "$every" "$(sort -n tasks | paste -sd , -)" "the GPUs of 64 tasks"

# MIG instances on GPUs 40 and 63, because the others are in use.
holds() { divvy submit --quiet --gpus "$1" -- sh -c 'until [ -e done ]; do sleep 0.2; done'; }
slice() { divvy submit --quiet --slice "$1" -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"; until [ -e done ]; do sleep 0.2; done'; }
low=$(holds 40)
wait_for "40 GPUs" state_is "$low" running
small=$(slice 1g.10gb)
wait_for "an instance" state_is "$small" running
high=$(holds 22)
wait_for "22 GPUs" state_is "$high" running
large=$(slice 7g.80gb)
wait_for "an instance of a whole GPU" state_is "$large" running
beside=$(slice 3g.40gb)
wait_for "an instance beside the first" state_is "$beside" running
gpus_of() { divvy show "$1" --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["gpus"])'; }
expect "40 63 40" "$(gpus_of "$small") $(gpus_of "$large") $(gpus_of "$beside")" "the GPUs of the instances"
mig_is 40 on && mig_is 63 on && slices_are 40 2 && slices_are 63 1 || fail "the driver has other instances"
divvy logs "$large" | grep -qE '^MIG-[0-9a-f-]{36}$' || fail "it finds: $(divvy logs "$large")"

pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up
expect "40 63 $(seq -s ' ' 41 62)" "$(gpus_of "$small") $(gpus_of "$large") $(gpus_of "$high")" "the GPUs after a restart"
touch done
wait_for "the last instance's end" state_is "$large" succeeded
wait_for "GPU 63 to be whole again" mig_is 63 off

# An elastic job takes all idle GPUs, and gives back those that another job waits for.
rm done
cat >train.sh <<'SH'
trap : USR1
until [ -e done ]; do
  code=0
  new=$(divvy checkpoint) || code=$?
  case $code in
    3) echo "$new" >gpus ;;
    0) [ -e gpus ] || echo "$new" >gpus ;;
    *) exit 1 ;;
  esac
  sleep 0.1
done
SH
elastic=$(divvy submit --quiet --gpus 2..64 -- sh train.sh)
has() { [ "$(tr ',' '\n' <gpus | grep -c .)" = "$1" ]; }
wait_for "64 GPUs of the elastic job" has 64
other=$(holds 40)
wait_for "the job that waits for 40" state_is "$other" running
wait_for "24 GPUs of the elastic job" has 24
touch done
wait_for "its end" state_is "$elastic" succeeded
