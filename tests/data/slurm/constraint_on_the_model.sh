#!/bin/bash
#SBATCH --constraint="gpu&hbm80g"
#SBATCH --gpus-per-node=4
#SBATCH --account=m0000_g
#SBATCH --qos=regular
#SBATCH --exclusive
srun --gpu-bind=none ./a.out
