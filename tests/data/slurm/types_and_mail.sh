#!/bin/bash
#SBATCH --gres=gpu:nvidia_a100_80gb_pcie:2
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --mail-user=ada@example.org
#SBATCH --mem 120G
#SBATCH --time 12:00:00
#SBATCH --error err.txt
#SBATCH --out out.txt
./run
