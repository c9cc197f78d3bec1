#!/bin/bash
# GFLOW --gpus 2
# GFLOW --time 10
# GFLOW --name two-gpus

sh train.sh --seconds=1
