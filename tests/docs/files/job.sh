#!/bin/sh
#SBATCH --gres=gpu:1
#SBATCH --time=4:00:00
python train.py "$@"
