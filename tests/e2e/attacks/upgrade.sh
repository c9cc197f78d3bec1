#!/usr/bin/env bash
# Upgrade from a release whose daemon ran as root: all of its state belonged to root, with the run records next to the
# store. The launcher takes it over at its first start, while jobs run. Files that users planted in between do not
# mislead it.
. "$(dirname "$0")/lib.sh"
serve
ends=$(as bob divvy submit --quiet -- sh -c 'while [ ! -e go ]; do sleep 0.02; done; echo over; exit 7')
stays=$(as bob divvy submit --quiet -- sleep 1000)
for job in "$ends" "$stays"; do wait_for "bob's jobs" state_is "$job" running; done
old=$(as bob divvy submit --quiet -- echo old)
wait_for "the old job" state_is "$old" succeeded
divvy down --quiet

# Restores the old layout: one folder that belongs to root. Supervisors continue in theirs, whatever its path is.
pkill -x divvy-launcher || true
mv /var/lib/divvy-launcher/runs /var/lib/divvy/runs
rm -rf /var/lib/divvy-launcher /run/divvy-launcher /run/divvy
find /var/lib/divvy -user divvy -exec chown root:root {} +
chgrp -R root /var/lib/divvy
find /var/lib/divvy/runs -maxdepth 1 -type f -exec chmod 600 {} +
find /var/lib/divvy/logs -type f -exec chown bob:bob {} + -exec chmod 600 {} +
chmod 711 /var/lib/divvy/runs
# Supervisors of that release accepted commands from root only, and their records name no other user. The record files
# must stay the same, because they are locked.
for record in /var/lib/divvy/runs/[0-9]*; do
  text=$(grep -v "^commander=" "$record")
  printf '%s\n' "$text" >"$record"
done
chmod 700 /var/lib/divvy/runs/steps-61002
install -d -m 700 /var/lib/divvy/agent

divvy up --quiet --emulate 4xA100-40GB
for job in "$ends" "$stays"; do state_is "$job" running || fail "job $job is $(field "$job" state)"; done
expect old "$(as bob divvy logs "$old")" "a log of before"
expect "" "$(find /var/lib/divvy -user root ! -name runs)" "what is root's still"
as bob touch /var/lib/home/bob/go
wait_for "the end" state_is "$ends" failed
expect 7 "$(field "$ends" exit_code)" "its exit code"
as bob divvy logs "$ends" | grep -q over || fail "its log: $(as bob divvy logs "$ends")"
as bob divvy cancel --grace 0 "$stays" >/dev/null
wait_for "the other end" state_is "$stays" cancelled
wait_for "the end of the records" sh -c '! ls /var/lib/divvy-launcher/runs | grep -q "^[0-9]"'
