#!/bin/bash
# GFLOW --gpus 2 --time 2:00:00
# GFLOW --param lr=1e-3,1e-4 --max-concurrent 1
# GFLOW --depends-on @ --conda-env vision   # everything is applied
## GFLOW --gpus 8
python train.py --lr {lr}
# GFLOW --gpus 4
