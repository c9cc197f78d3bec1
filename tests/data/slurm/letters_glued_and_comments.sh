#!/bin/bash -l
# A user's own header.
#SBATCH -N1 -n 4 -c8                # one node, four tasks
#SBATCH -J "two words"              # quoted
#SBATCH -t 1-00:00:00 -p gpu,long -A proj0001
#SBATCH -o logs/%x-%4j.out
##SBATCH --mem=64G
# SBATCH --mem=32G
#SBATCH -G 4

module load cuda
srun ./solve
#SBATCH --time=5
