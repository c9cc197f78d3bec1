#!/bin/bash
#SBATCH --gres=gpu:a100_3g.20gb:1
#SBATCH --tmp=20G
#SBATCH --tres-bind=gres/gpu:closest
nvidia-smi -L
