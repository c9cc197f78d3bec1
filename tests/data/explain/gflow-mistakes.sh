#!/bin/bash
# GFLOW --gpsu 2
# GFLOW --time 5y
# gflow --gpus 1
# GFLOW --name "open
# GFLOW --project vision train.py
# GFLOW --notify-email ada@example.org
python train.py
