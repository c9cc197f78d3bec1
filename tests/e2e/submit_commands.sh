#!/usr/bin/env bash
# Runs unmodified examples of other tools: VH_GPUS steps, gflow commands and a gflow script, Slurm scripts; and an
# unmanaged process.
. "$(dirname "$0")/lib.sh"
cat >divvy.toml <<'T'
[queue]
escalate_after = "1s"
[gpus]
poll = "100ms"
T
divvy up --quiet --emulate 8xH100-80GB
divvy shims bin >/dev/null
PATH=$DIVVY_HOME/bin:$PATH
mkdir work && cd work
cat >valohai.yaml <<'Y'
- step:
    name: single-gpu-experiment
    image: tensorflow/tensorflow:latest-gpu
    command:
      - echo vis=$CUDA_VISIBLE_DEVICES; while [ ! -e "$DIVVY_HOME/go" ]; do sleep 0.05; done
    environment-variables:
      - name: VH_GPUS
        default: 1
- step:
    name: full-training
    image: pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime
    command:
      - echo vis=$CUDA_VISIBLE_DEVICES
    environment-variables:
      - name: VH_GPUS
        default: 4
Y
for _ in 1 2 3 4 5 6 7 8; do vh exec run single-gpu-experiment --adhoc >/dev/null; done
wait_for "eight executions at once" running_are 8
vh exec run full-training --adhoc VH_GPUS=4 >/dev/null
touch "$DIVVY_HOME/go"
wait_for "the executions" queue_is_empty
rm "$DIVVY_HOME/go"

# Small jobs run first. After its escalation the large job starts, although more small ones keep arriving.
for _ in 1 2 3 4 5 6; do divvy submit --quiet --gpus 1 -- sh -c 'sleep 0.5' >/dev/null; done
large=$(divvy submit --quiet --gpus 4 -- true)
end=$((SECONDS + 30))
until state_is "$large" succeeded; do
  [ $SECONDS -lt $end ] || fail "the large job starves"
  for _ in 1 2 3; do divvy submit --quiet --gpus 1 -- sleep 0.4 >/dev/null; done
  sleep 0.1
done
divvy cancel --all >/dev/null
wait_for "the small jobs" queue_is_empty

printf '#!/bin/bash\n# GFLOW --gpus 2\n\necho "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" >out2\n' >g.sh
gbatch g.sh >/dev/null
ginfo >/dev/null
wait_for "the gflow script" queue_is_empty
grep -qE '=[^,]+,[^,]+$' out2 || fail "the gflow script saw $(cat out2)"
gqueue -s Running -f 'JOBID,NAME,ST,NODES,NODELIST(REASON)' >/dev/null
gctl set-gpus 0,2 >/dev/null
gctl show-gpus >/dev/null
expect 2 "$(divvy run --gpus 2 -- sh -c 'echo ${CUDA_VISIBLE_DEVICES#0,}')" "the second GPU after gctl set-gpus 0,2"
gctl set-gpus all >/dev/null

gpu_is() { divvy gpus --json | tr '{' '\n' | grep "\"index\":$1," | grep -q "\"state\":\"$2\""; }
sleep 300 & stranger=$!
divvy emulate add-process 0 $stranger 2G
wait_for "the stranger on GPU 0" gpu_is 0 unmanaged
expect 1 "$(divvy run --gpus 1 -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" "the GPU beside the stranger's"
kill $stranger
wait_for "GPU 0 without the stranger" gpu_is 0 free

printf '#!/bin/bash\n#SBATCH --partition=gpu_partition\n#SBATCH --gres=gpu:1\n#SBATCH --ntasks-per-node=1\n#SBATCH --nodes=1\n#SBATCH --job-name=single_gpu_task\nsrun sh -c "echo got=\\$CUDA_VISIBLE_DEVICES"\n' >s.sh
id=$(sbatch --parsable s.sh)
wait_for "the Slurm script" queue_is_empty
grep -qE '^got=[0-9]' "slurm-$id.out" || fail "the Slurm script wrote: $(cat "slurm-$id.out")"
printf '#!/bin/bash\n#SBATCH --gres=gpu:1:tesla:v100\necho hi\n' >w.sh
sbatch w.sh >wrong 2>&1 && fail "a gres with its count before its type was accepted"
grep -qiE 'gpu:[a-z0-9_]*(tesla|v100)[a-z0-9_]*:1' wrong || fail "no repair is named: $(cat wrong)"
printf '#!/bin/bash\n#SBATCH --gres=gpu:1 --array=0-3%%2 --constraint=h100 -o arr-%%A_%%a.out\necho $SLURM_ARRAY_TASK_ID\n' >a.sh
id=$(sbatch --parsable a.sh)
wait_for "the Slurm array" queue_is_empty
expect 3 "$(cat "arr-${id}_3.out")" "the last element of the array"
echo "submit_commands: all examples passed"
