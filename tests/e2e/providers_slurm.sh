#!/usr/bin/env bash
# Nodes on demand from a real Slurm with fake GPUs: pilots run the agents. A burst of jobs and a gang run, pilots end
# when idle, a pilot that is cancelled or reaches its time limit is a lost node whose job runs again, slurmctld is
# restarted.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
. "$here/slurm_lib.sh"
[ -n "${SLURM_PREFIX:-}" ] || command -v slurmctld >/dev/null || skip "Slurm is not installed (scripts/test-providers unpacks it)"
[ "$(id -u)" = 0 ] || skip "needs root"

with_machines
trap 'clean_up; stop_slurm; end_agents; rm -rf "$machines"' EXIT
start_slurm "$machines/slurm" 3 8
mkdir "$machines/pilots"

# The daemon's own environment does not reach a provider's program, so a wrapper names this Slurm.
cat >provider <<EOF
#!/bin/sh
export SLURM_CONF="$SLURM_CONF" PATH="$PATH" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
exec "$divvy_binary" provider slurm "\$@"
EOF
chmod +x provider
cat >divvy.toml <<EOF
[[providers]]
name = "lab"
kind = "slurm"
command = ["$DIVVY_HOME/provider"]
options = ["--partition=main", "--divvy-path=$divvy_binary", "--divvy-home=$machines/pilots", "--divvy-emulate=8xH100-80GB"]
max_nodes = 3
timeout = "20s"
poll = "1s"
idle = "2s"
min_lifetime = "1s"

[[providers.shapes]]
name = "gpu8"
gpu_model = "H100-80GB"
gpus = 8
cpus = 8
memory = "1G"
price = 2
startup = "10s"

# Slurm ends its pilots after a minute, its smallest limit, and divvy does not know it.
[[providers.shapes]]
name = "minute"
gpu_model = "H100-80GB"
gpus = 8
cpus = 8
memory = "1G"
labels = ["minute"]
price = 3
startup = "10s"
options = ["--time=1"]
EOF
up_at ""
pilots() { squeue -h -a -o %i; }
no_pilots() { [ -z "$(pilots)" ]; }
# After a call with an unknown outcome, a request is kept until that call can have no effect any more.
no_requests() { [ "$(divvy providers nodes --csv | wc -l)" -le 1 ]; }
pilot_of() { node=$(field "$1" node); case $node in lab-*) ;; *) return 1 ;; esac; }

for _ in $(seq 40); do divvy submit --gpus 1 -- sleep 1 >/dev/null; done
divvy submit --nodes 2 --gpus 8 -- sleep 1 >/dev/null
divvy submit --gpus 1 -- sh -c 'exit 7' >/dev/null
wait_for "a pilot" sh -c '[ -n "$(squeue -h)" ]'
# slurmctld is restarted meanwhile.
kill -9 "$slurmctld_pid"
start_slurmctld
WAIT_S=180 wait_for "the burst" queue_is_empty
expect 41 "$(divvy queue --all --json --state succeeded | grep -o '"display_id"' | wc -l)" "jobs that succeeded"
expect 7 "$(field 42 exit_code)" "the exit code of job 42"
WAIT_S=90 wait_for "the end of idle pilots" no_pilots
no_files() { [ -z "$(ls "$machines/pilots")" ]; }
wait_for "the removal of the pilots' files" no_files

# A pilot reaches its time limit while its job runs: the node is lost, and the job runs again on another. Meanwhile, a
# second pilot is cancelled by somebody else, with the same result.
divvy submit --gpus 8 --constraint minute -- sh -c "[ -e '$machines/limit' ] || { touch '$machines/limit'; exec sleep 1000; }" >/dev/null
WAIT_S=150 wait_for "the job with a time limit" [ -e "$machines/limit" ]
at_limit=$(squeue -h -o '%i %l' | grep ' 1:00$' | cut -d' ' -f1)
[ -n "$at_limit" ] || fail "no pilot has a time limit: $(squeue -h -o '%i %l')"
divvy submit --gpus 8 -- sh -c "[ -e '$machines/second' ] || { touch '$machines/second'; exec sleep 1000; }" >/dev/null
WAIT_S=150 wait_for "its first run" [ -e "$machines/second" ]
pilot_of 44 || fail "job 44 is on no pilot: $(divvy show 44)"
scancel "$(squeue -h -o '%i %j' | grep " $node\$" | cut -d' ' -f1)"
has_left() { ! squeue -h -o %i | grep -qx "$at_limit"; }
WAIT_S=150 wait_for "the end of the pilot at its time limit" has_left
WAIT_S=150 wait_for "the second runs" queue_is_empty
expect succeeded "$(field 43 state)" "the state of job 43"
expect succeeded "$(field 44 state)" "the state of job 44"
WAIT_S=90 wait_for "the end of all pilots" no_pilots
WAIT_S=300 wait_for "the end of all requests" no_requests
echo "$(grep -c event=node_requested daemon.log) pilots"
