#!/bin/bash
#SBATCH --job-name=two-ranks
#SBATCH --nodes=1
#SBATCH --ntasks=2
#SBATCH --gres=gpu:2
#SBATCH --time=10:00

srun sh -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS sees GPU $CUDA_VISIBLE_DEVICES"; sleep 1'
