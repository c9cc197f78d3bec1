#!/usr/bin/env bash
# The lease of a node whose agent does not run as root. Supervisors run as root, read the lease with the permissions of
# the agent's user, and stop the jobs when the lease has ended.
. "$(dirname "$0")/lib.sh"
. "$attacks/second_machine.sh"
printf '[controller]\nlost_after = "2s"\nrequeue_lost_after = "20s"\n' >/etc/divvy/divvy.toml
up_listening
make_n1
join_n1
job=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- sleep 1000)
wait_for "bob's job on n1" state_is "$job" running
record=/var/lib/divvy-launcher/runs/$job
there kill -9 "$(n1_pid)"
wait_for "its end by the lease" there grep -q '^complete=1$' "$record"
there grep -q '^failure=its node lost contact with the controller: stopped when the lease ended$' "$record" || fail "its record says: $(there cat "$record")"
there divvy agent --detach --quiet || fail "the agent did not come again"
wait_for "n1 again" node_is n1 up
as bob divvy cancel --grace 0 "$job" >/dev/null
wait_for "its last end" state_is "$job" cancelled
