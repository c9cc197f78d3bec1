#!/bin/sh
# DIVVY --signal USR1@10m
# DIVVY --time 5m
true
