#!/bin/bash
#SBATCH --job-name=train
#SBATCH --gres=gpu:2
# SBATCH --time=2:00:00
# DIVVY --gpu-memory 40G
srun python train.py
