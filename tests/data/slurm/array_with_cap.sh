#!/bin/sh
#SBATCH --array=1-100:3%8
#SBATCH --gpus=1
#SBATCH --mem-per-gpu=40G
#SBATCH --cpus-per-gpu=6
#SBATCH --output=out/%A_%a.log
#SBATCH --time=30
echo "$SLURM_ARRAY_TASK_ID"
