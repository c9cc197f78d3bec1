#!/usr/bin/env python3
# DIVVY --gpus 2 --gpu-type "h100|a100" --memory 64G
# DIVVY --time 1h30m --signal USR1@300
# DIVVY --output logs/%j.log --retries 2
print("hello")
