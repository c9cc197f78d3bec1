#!/bin/bash
#SBATCH --job-name=$USER-run
#SBATCH --output=$HOME/logs/%j.out
#SBATCH --gres=gpu:1
hostname
