#!/bin/sh
# Replaces a training program: prints the GPUs that it got and then sleeps.
# Accepts options as a Valohai step passes them: --seconds=4 --lr=0.001
seconds=3
for word in "$@"; do
  case $word in --seconds=*) seconds=${word#--seconds=} ;; esac
done
echo "job ${DIVVY_JOB_ID:-?} trains on GPU ${CUDA_VISIBLE_DEVICES:-none} for $seconds s: $*"
sleep "$seconds"
echo "done"
