#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --partition=gpu_partition
#SBATCH --gres=gpu:1
#SBATCH --ntasks-per-node=1
#SBATCH --array=0-5%4
#SBATCH --time=00:10:00
#SBATCH --output=sweep-%a.out

rates=(0.1 0.03 0.01 0.003 0.001 0.0003)
sh train.sh --seconds=1 --lr="${rates[$SLURM_ARRAY_TASK_ID]}"
