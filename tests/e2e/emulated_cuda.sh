#!/usr/bin/env bash
# Programs that use CUDA on emulated GPUs: each sees only its job's GPU, its use is reported, and faults reach it.
. "$(dirname "$0")/lib.sh"
divvy up --quiet --emulate 2xH100-80GB
burn() { # burn OPTIONS...: runs divvy-burn as a job with one GPU and prints its output
  divvy run --gpus 1 -- env "LD_LIBRARY_PATH=$DIVVY_HOME/emulate" "$(dirname "$divvy_binary")/divvy-burn" "$@"
}

expect "gpu_seconds=0.100 kernels=20 checks=1 errors=0" \
  "$(burn --gpu-seconds 100ms --vram 200M --check | tail -n 1 | sed -E 's/ (wall_seconds|vram)=[^ ]*//g')" "what a job computed"

# Nothing reported this process to NVML; the emulated driver detected it.
job=$(divvy submit --quiet --gpus 1 -- env "LD_LIBRARY_PATH=$DIVVY_HOME/emulate" "$(dirname "$divvy_binary")/divvy-burn" --gpu-seconds 600 --vram 2G)
wait_for "its memory and its load" sh -c 'divvy gpus | grep -E "^ +0 .* (9[0-9]|100)% +2/80G"'

# The other GPU is the first and only one that the next job sees.
code=0
burn --gpu-seconds 100ms --device 1 2>err.log || code=$?
expect 2 "$code" "the code of a job that wanted a GPU it has not"
grep -q "CUDA_ERROR_INVALID_DEVICE (101)" err.log || fail "said: $(cat err.log)"
divvy emulate cuda-fault 1 oom-at 1
code=0
burn --vram 1G 2>err.log || code=$?
expect 2 "$code" "the code of a job whose allocation failed"
burn --vram 1G --check >/dev/null || fail "the fault stayed"

# A program that sets CUDA_VISIBLE_DEVICES itself. The GPU that its job does not hold is unmanaged until it leaves, and
# divvy names the job.
divvy cancel "$job" --grace 0 >/dev/null
wait_for "GPU 0, the first that is given" sh -c 'divvy gpus | grep -qE "^ +0 .* free "'
job=$(divvy submit --quiet --gpus 1 -- env CUDA_VISIBLE_DEVICES=1 "LD_LIBRARY_PATH=$DIVVY_HOME/emulate" "$(dirname "$divvy_binary")/divvy-burn" --gpu-seconds 600 --vram 2G)
wait_for "GPU 1 in its wrong hands" sh -c "divvy gpus | grep -E '^ +1 .*unmanaged' | grep -q 'job $job of .*, which was not given this GPU'"
divvy show "$job" | grep -q '^GPU 1 .*used but not allocated' || fail "show says: $(divvy show "$job")"
next=$(divvy submit --quiet --gpus 1 -- true)
divvy why "$next" | grep -q "GPU 1 is used by job $job" || fail "why says: $(divvy why "$next")"
divvy top --once | grep -qE "^ +1 .*job $job of " || fail "top says: $(divvy top --once)"

# It is killed and leaves nothing behind.
divvy signal KILL "$job" >/dev/null 2>&1 || divvy cancel "$job" --grace 0 >/dev/null
wait_for "an empty GPU" sh -c 'divvy gpus | grep -E "^ +0 .* 0/80G"'
wait_for "GPU 1 in right hands" state_is "$next" succeeded
