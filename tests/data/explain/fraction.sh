#!/bin/sh
# DIVVY --gpus 0.25 --gpu-limit 0.8
true
