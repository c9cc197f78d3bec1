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

# A task is a sweep. Each execution has its own folder, parameters and identity.
cat >>valohai.yaml <<'Y'
- step:
    name: train
    image: busybox
    command:
      - echo {parameters} >"$VH_OUTPUTS_DIR/words"
      - cp "$VH_CONFIG_DIR/parameters.json" "$VH_CONFIG_DIR/execution.json" "$VH_OUTPUTS_DIR"
      - echo "{\"epoch\":1,\"accuracy\":"{parameter-value:lr}"}"
    parameters:
      - {name: lr, type: float, default: 1}
      - {name: opt, default: adam}
- task:
    name: search
    step: train
    type: grid_search
    execution-batch-size: 2
    optimization-target-metric: accuracy
    parameters:
      - {name: lr, style: linear, rules: {start: 0.1, end: 0.3, step: 0.1}}
      - {name: opt, style: multiple, rules: {items: [adam, sgd]}}
Y
vh task run search --adhoc >task
grep -qE '^Task created: executions #[0-9]+ to #[0-9]+ of train, .*; divvy sweep show [0-9]+$' task || fail "says: $(cat task)"
sweep=$(grep -oE '[0-9]+$' task)
wait_for "the executions of the task" state_is "$sweep" succeeded
best() { divvy sweep show "$sweep" --json | python3 -c 'import json,sys; v=json.load(sys.stdin); print(v["best"], v["parallel"], len(v["list"]), v["method"])'; }
best_is_read() { [ "$(best)" = "0.3 2 6 grid_search" ]; }
wait_for "the best accuracy" best_is_read
outputs=$(vh --output-format csv exec info $((sweep + 4)) | sed -n 's/^Outputs,//p')
expect "--lr=0.2 --opt=sgd" "$(cat "$outputs/words")" "the parameters of the fourth execution"
expect '{"lr": 0.2, "opt": "sgd"}' "$(cat "$outputs/parameters.json")" "its parameters.json"
uuid=$(vh --output-format csv exec info $((sweep + 4)) | sed -n 's/^Id,//p')
grep -q "\"valohai.execution-id\": \"$uuid\"" "$outputs/execution.json" || fail "$uuid: $(cat "$outputs/execution.json")"
expect "$uuid" "${uuid%-*}-000000000004" "the UUID of the fourth execution"
vh --output-format csv task list | grep -q ",train,$((sweep + 1)),6,6 complete$" || fail "the list: $(vh task list)"

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
