#!/bin/bash
#SBATCH --gpus=8
#SBATCH --container-image=docker://nvcr.io/nvidia/pytorch:24.01-py3
#SBATCH --container-mounts=/data:/data
#SBATCH --uenv=prgenv/24.7:v1
#SBATCH --view=default
#SBATCH --disable-dcgm
#SBATCH --power-cap=300
srun python train.py
