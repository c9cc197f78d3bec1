#!/bin/bash
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --time=02:00:00
#SBATCH --gres=gpu:h100:1
trap 'scontrol requeue $SLURM_JOB_ID' USR1
srun python train.py & wait
