#!/bin/bash
#SBATCH --nodes=1-4
#SBATCH --switches=1@00:10:00
#SBATCH --segment=1
#SBATCH --reservation=course
#SBATCH --exclude=n01,n02
#SBATCH --nodelist=n03
#SBATCH --wait-all-nodes=1
#SBATCH --get-user-env
#SBATCH --licenses=matlab:1
#SBATCH --time-min=10
#SBATCH --export=ALL,SEED=3
#SBATCH --gres=gpu:2
torchrun --nproc_per_node=2 train.py
