#!/bin/bash
#SBATCH --dependency=afterok:12:13,afterany:14
#SBATCH --begin=2026-03-03T08:00
#SBATCH --hold
#SBATCH --nice=50
#SBATCH --comment="part 2 of 3"
#SBATCH --ntasks=1
./next
