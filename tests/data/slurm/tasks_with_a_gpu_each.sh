#!/bin/bash
#SBATCH --ntasks=4
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=0
#SBATCH --hint=nomultithread
#SBATCH --distribution=block:block
srun -l python worker.py
