#!/bin/bash
#SBATCH --ntasks=8
#SBATCH --ntasks-per-gpu=2
#SBATCH --mem-per-cpu=2000
#SBATCH --cpus-per-task=2
#SBATCH --ntasks-per-core=1 --ntasks-per-socket=4
#SBATCH --threads-per-core=1
srun ./bench
