#!/usr/bin/env bash
# MIG instances, with real processes on emulated GPUs: created for a job and removed after it, packed on one GPU,
# separated from whole-GPU jobs and fractions, and limited to their size; through kill -9 of the daemon and the keeper,
# and on another node. Instances of others are left alone.
. "$(dirname "$0")/slices_lib.sh"
. "$(dirname "$0")/lib.sh"
command -v divvy-burn >/dev/null || fail "divvy-burn lies beside divvy"
with_machines
printf '[gpus]\nmig = "auto"\n' >"$DIVVY_HOME/divvy.toml"
up_listening

# One job in an instance: the program sees only that instance, and can use exactly its memory.
job=$(divvy submit --quiet --slice 1g.10gb -- sh -c 'echo "$CUDA_VISIBLE_DEVICES $DIVVY_SLICE"; divvy-burn --gpu-seconds 0.2 --vram 8G --check; divvy-burn --gpu-seconds 0.1 --vram 11G; echo "code $?"')
wait_for "the job in a slice" state_is "$job" succeeded
divvy logs "$job" >log
grep -qE '^MIG-[0-9a-f-]{36} 1g.10gb$' log || fail "its environment: $(cat log)"
grep -q 'errors=0' log || fail "its memory: $(cat log)"
! grep -q '^code 0$' log || fail "it got more than the instance has: $(cat log)"
wait_for "the GPU to be whole again" mig_is 0 off

# Several instances are on one GPU, and no other job is.
long() { divvy submit --quiet "$@" -- divvy-burn --gpu-seconds 600 --vram 1G --check; }
a=$(long --slice 1g.10gb)
b=$(long --slice '>=35G')
wait_for "a" state_is "$a" running
wait_for "b" state_is "$b" running
whole=$(long --gpus 1)
wait_for "a whole-GPU job beside them" state_is "$whole" running
expect "$(field "$a" gpus)" "$(field "$b" gpus)" "GPUs of two slices"
[ "$(field "$whole" gpus)" != "$(field "$a" gpus)" ] || fail "a whole-GPU job is on a GPU with slices"
wait_for "their lines" sh -c "COLUMNS=120 divvy gpus | grep -q 'slice 3g.40gb .*enforced by MIG'"
wait_for "what a has" has_memory "$a"
part=$(long --gpus 0.25)
divvy why "$part" >why
divvy queue | grep -q "$part" || fail "a share is not in the queue"
state_is "$part" queued || fail "a share runs on a GPU with slices: $(cat why)"
! divvy resize "$a" --gpus 0.5 2>message || fail "a slice was resized"
grep -q "has a slice 1g.10gb of a GPU, which the hardware partitions" message || fail "says: $(cat message)"
# A waiting job may switch to a slice.
other=$(long --gpus 2)
divvy update "$other" --slice 1g >/dev/null
wait_for "a whole job that asks for a slice now" state_is "$other" running
divvy queue | grep -q "$other .*1g.10gb" || fail "its slice is not in the queue: $(divvy queue)"
divvy signal TERM "$other" >/dev/null
wait_for "its end" state_is "$other" succeeded
! divvy park "$a" 2>message || fail "a slice was parked"
grep -q "has a slice of a GPU" message || fail "says: $(cat message)"
! divvy submit --slice 9g.90gb -- true 2>message || fail "there is no such profile"
! divvy submit --slice 1g.18gb -- true 2>message || fail "no GPU here can be cut so"
grep -q "available: --slice 1g.10gb" message || fail "says: $(cat message)"

# A daemon that sees no GPUs does not touch the instances of running jobs.
divvy down >/dev/null
divvy up --quiet --listen "127.0.0.1:$port"
wait_for "the daemon to hear of them" sh -c "divvy queue --json | grep -q 'enforced by MIG'"
divvy down >/dev/null
divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port"
wait_for "both as they were" sh -c "[ \$(divvy gpus --json | grep -o 'enforced by MIG' | wc -l) = 2 ]"
! divvy gpus --json | grep -q "cannot be destroyed" || fail "they were to be unmade: $(divvy gpus)"
state_is "$a" running && state_is "$b" running || fail "they did not go on: $(divvy queue)"

# Samples of each instance are kept, under the number that the driver gave it.
on_gpu=$(field "$a" gpus | tr -d '[]')
has_curve() { divvy metrics --gpu "$on_gpu" --slice all --csv --since 5m | grep -q '^[0-9]*,slice,.*,gpu_memory_used_bytes,'; }
wait_for "curves of the instances" has_curve
instance=$(divvy metrics --gpu "$on_gpu" --slice all --csv --since 5m | sed -n '2s/.*,//p')
expect "$instance" "$(divvy metrics --gpu "$on_gpu:$instance" --csv --since 5m | sed 1d | sed 's/.*,//' | sort -u)" "the instances asked for"
divvy metrics --gpu "$on_gpu" --slice 99 --since 5m >none 2>&1 && fail "there is no instance 99: $(cat none)"
grep -qE "GPU $on_gpu had no samples of MIG instance 99 in that period; sampled instances: [0-9]" none || fail "it says: $(cat none)"

# The daemon and the keeper are killed: running jobs continue, and instances of jobs that end meanwhile are removed.
keeper=$(pgrep -f "divvy keeper --directory $runs" | head -n 1)
pid=$(daemon_pid)
b_pid=$(field "$b" pid)
kill -9 "$keeper" "$pid"
wait_for "their end" sh -c "! kill -0 $pid && ! kill -0 $keeper"
kill -TERM "$b_pid"
divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port"
wait_for "b's end" state_is "$b" succeeded
wait_for "only a's instance is left" slices_are "$(field "$a" gpus | tr -d '[]')" 1
state_is "$a" running || fail "a did not go on"
divvy signal TERM "$a" "$whole" >/dev/null
wait_for "their end" state_is "$a" succeeded
wait_for "the share to run" state_is "$part" running
divvy logs "$a" | grep -q "errors=0" || fail "memory of $a: $(divvy logs "$a")"
divvy signal TERM "$part" >/dev/null
wait_for "an empty queue" queue_is_empty

# On another node, whose GPU is always in MIG mode: it takes only jobs with slices.
divvy token create --node >n1.token 2>/dev/null
mkdir -p "$machines/n1"
cat >"$machines/n1/gpus" <<'END'
[gpu]
model = A100-80GB
mig = on
END
on n1 agent --join-file "$PWD/n1.token" --name n1 --emulate "$machines/n1/gpus" --detach --quiet || fail "n1 did not join"
wait_for "n1" node_is n1 up
far=$(long --slice 7g --nodelist n1)
wait_for "a slice on n1" state_is "$far" running
expect n1 "$(field "$far" node)" "its machine"
wait_for "its line" sh -c "COLUMNS=120 divvy gpus | grep -q 'slice 7g.80gb '"
divvy gpus | grep -q "in MIG mode: provides slices only, 1g.10gb to 7g.80gb" || fail "nothing says that it is in MIG mode: $(divvy gpus)"
! divvy submit --gpus 1 --nodelist n1 -- true 2>message || fail "a whole GPU of a machine that has none"
divvy signal TERM "$far" >/dev/null
wait_for "its end" state_is "$far" succeeded

# An instance that divvy did not create: its GPU is not used, and the instance stays.
divvy emulate mig 1 on
divvy emulate make-slice 1 1 1 0
wait_for "it is seen" sh -c "divvy gpus | grep -q unmanaged"
last=$(long --slice 2g.20gb)
wait_for "a slice on the other GPU" state_is "$last" running
expect "[0" "$(field "$last" gpus | cut -c1-2)" "its GPU"
divvy signal TERM "$last" >/dev/null
wait_for "an empty queue" queue_is_empty
wait_for "GPU 0 whole again" mig_is 0 off
slices_are 1 1 || fail "somebody else's instance was touched"
