#!/usr/bin/env bash
# alice takes all the connections, memory and submissions that she can get. root and bob are still answered, the daemon
# grows by less than 64 MiB, and an agent on another machine keeps its session.
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
$python -c 'import socket' 2>/dev/null || skip "python3 is not installed (apt-get install python3)"
socket=/run/divvy/divvy.sock
install -m 644 "$attacks/crowding.py" "$attacks/latency.py" /var/lib/bin
port=$((20000 + (RANDOM + $$) % 12000)) page=$((port + 1))
serve '[controller]' "listen = \"127.0.0.1:$port\"" '[ui]' "listen = \"127.0.0.1:$page\""
divvy ui --no-browser >/dev/null 2>&1 || divvy ui >/dev/null 2>&1 || true
divvy token create --node >n1.token 2>/dev/null
DIVVY_HOME=/var/lib/tmp/n1 divvy agent --join-file "$PWD/n1.token" --name n1 --emulate 2xA100-40GB --detach --quiet
wait_for "the agent" node_is n1 up
trap 'DIVVY_HOME=/var/lib/tmp/n1 "$DIVVY" agent --stop >/dev/null 2>&1 || true; clean_up' EXIT
daemon=$(daemon_pid)
joined() { grep -c "node=n1.*event=" /var/lib/divvy/daemon.log || true; }
memory() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$daemon/status"; }

latency() { # USER
  if [ "$1" = root ]; then $python /var/lib/bin/latency.py $socket 51
  else as "$1" $python /var/lib/bin/latency.py $socket 51; fi
}
quiet_root=$(latency root) quiet_bob=$(latency bob) memory_before=$(memory) sessions=$(joined)

mkfifo hold
# shellcheck disable=SC2094
as alice $python /var/lib/bin/crowding.py $socket $page $port <hold >alice.out 2>alice.err &
exec 9>hold
WAIT_S=120 wait_for "alice to hold all that she can: $(cat alice.err)" grep -q ready alice.out
crowded_root=$(latency root) || fail "root is refused: $crowded_root"
crowded_bob=$(latency bob) || fail "bob is refused: $crowded_bob"
divvy status >/dev/null || fail "divvy status of root is refused"
as bob divvy run --gpus 0 -- true || fail "bob's job does not run"
memory_after=$(memory)
echo "root: $quiet_root; beside alice: $crowded_root"
echo "bob:  $quiet_bob; beside alice: $crowded_bob"
echo "memory: $((memory_before / 1024)) MiB; beside alice: $((memory_after / 1024)) MiB"
[ $((memory_after - memory_before)) -lt 65536 ] || fail "the daemon grew by $(((memory_after - memory_before) / 1024)) MiB"
node_is n1 up || fail "the agent lost its session: $(divvy nodes)"
expect "$sessions" "$(joined)" "sessions of the agent"
# An agent that reconnects is accepted while alice still holds everything.
DIVVY_HOME=/var/lib/tmp/n1 divvy agent --stop >/dev/null
wait_for "the agent's end" sh -c '! [ "$(divvy nodes --csv | grep ^n1, | cut -d, -f2)" = up ]'
DIVVY_HOME=/var/lib/tmp/n1 divvy agent --emulate 2xA100-40GB --detach --quiet 9>&- || fail "the agent cannot come back"
WAIT_S=60 wait_for "the agent to be back" node_is n1 up
# The web page of this machine also answers.
code=$(curl -s -m 20 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$page/") || fail "the page does not answer beside alice's connections"
expect 200 "$code" "status of the page"

exec 9>&-
wait %1 2>/dev/null || true
queued() { divvy status --json | grep -oE '"jobs_held":[0-9]+' | cut -d: -f2; }
[ "$(queued)" -le 10000 ] || fail "alice has $(queued) jobs in the queue"
# Repeated, because submissions that alice has sent may still be accepted after a cancellation.
cancel_all() {
  divvy cancel --user alice --grace 0 >/dev/null 2>&1 || true
  queue_is_empty
}
wait_for "an empty queue" cancel_all
