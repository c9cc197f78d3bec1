#!/usr/bin/env bash
# Upgrade from a release whose agent ran as root: its folder belonged to root and contained the run records. The
# launcher takes the state over at its first start, while jobs run. New jobs wait until root has joined the node once
# more, because the key of the controller's launcher is missing.
. "$(dirname "$0")/lib.sh"
. "$attacks/second_machine.sh"
up_listening
make_n1
join_n1
ends=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- sh -c 'while [ ! -e go ]; do sleep 0.02; done; echo over; exit 7')
stays=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- sleep 1000)
for job in "$ends" "$stays"; do wait_for "bob's jobs" state_is "$job" running; done
there divvy agent --stop --quiet
wait_for "n1 away" node_is n1 away

# Restores the old layout. Supervisors continue in their folder, whatever its path is; those of that release accepted
# commands from root only.
there bash -ec '
  pkill -x divvy-launcher
  mv /var/lib/divvy-launcher/runs /var/lib/divvy/agent/runs
  rm -rf /var/lib/divvy/agent/emulate
  mv /var/lib/divvy-launcher/emulate /var/lib/divvy/agent/
  rm -rf /var/lib/divvy-launcher /run/divvy-launcher /run/divvy
  find /var/lib/divvy -user divvy -exec chown root:root {} +
  chgrp -R root /var/lib/divvy
  find /var/lib/divvy/agent/runs -maxdepth 1 -type f -exec chmod 600 {} +
  find /var/lib/divvy/agent/logs -type f -exec chown bob:bob {} + -exec chmod 600 {} +
  chmod 711 /var/lib/divvy/agent/runs
  for record in /var/lib/divvy/agent/runs/[0-9]*; do
    text=$(grep -v "^commander=" "$record")
    printf "%s\n" "$text" >"$record"
  done
  chmod 700 /var/lib/divvy/agent/runs/steps-51002'

there divvy agent --detach --quiet || fail "the agent did not take over"
wait_for "n1 after the upgrade" sh -c "divvy nodes --json | grep -q 'does not have the key of the controller'"
for job in "$ends" "$stays"; do state_is "$job" running || fail "job $job is $(field "$job" state)"; done
expect "" "$(there find /var/lib/divvy -user root ! -name runs)" "what is root's still"
there touch /var/lib/home/bob/go
wait_for "the end" state_is "$ends" failed
expect 7 "$(field "$ends" exit_code)" "its exit code"
as bob divvy logs "$ends" | grep -q over || fail "its log: $(as bob divvy logs "$ends")"
as bob divvy cancel --grace 0 "$stays" >/dev/null
wait_for "the other end" state_is "$stays" cancelled
wait_for "the end of the records" there sh -c '! ls /var/lib/divvy-launcher/runs | grep -q "^[0-9]"'

waits=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- true)
state_is "$waits" queued || fail "the new job is $(field "$waits" state)"
there divvy agent --stop --quiet
join_n1
wait_for "the new job" state_is "$waits" succeeded
there divvy agent --stop --quiet
