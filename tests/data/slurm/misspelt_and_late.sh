#!/bin/bash
#sbatch --mem=4G
 #SBATCH --mem=8G
#SBTACH --mem=16G
#SBATCH --job-name=late words here
hostname
#SBATCH --gres=gpu:1
