# Sourced by the end-to-end tests: starts a private daemon on emulated GPUs and stops it at the end of the test. Tests
# wait for conditions with a deadline and never just sleep.
#
# With DIVVY_ON_MACHINE=1 the daemon is the system-wide one, which does not run as root and has a launcher, in
# namespaces of its own.
set -eu
[ -z "${DIVVY_ON_MACHINE:-}" ] || . "$(dirname "${BASH_SOURCE[0]}")/machine_lib.sh"
divvy_binary=${DIVVY:?path of the divvy to test}
PATH=$(dirname "$divvy_binary"):$PATH
if [ -n "${DIVVY_ON_MACHINE:-}" ]; then
  test_on_machine
else
  export DIVVY_HOME
  DIVVY_HOME=$(mktemp -d)
  runs=$DIVVY_HOME/runs
fi
unset SLURM_JOB_ID DIVVY_JOB_ID DIVVY_STEPS
# Ends all jobs, because they outlive their daemon, also after a failed test.
clean_up() {
  divvy cancel --all --grace 0 >/dev/null 2>&1 || true
  for _ in $(seq 200); do
    [ "$(divvy queue --json 2>/dev/null || echo '[]')" != "[]" ] || break
    sleep 0.02
  done
  divvy down >/dev/null 2>&1 || true
  [ -z "${DIVVY_HOME:-}" ] || rm -rf "$DIVVY_HOME"
}
trap clean_up EXIT
cd "$DIVVY_HOME"

fail() {
  echo "FAILED: $*" >&2
  divvy queue --all >&2 || true
  cat "$DIVVY_HOME/daemon.log" >&2 || true
  exit 1
}
# wait_for WHAT COMMAND...: repeats the command until it succeeds, for at most WAIT_S seconds (30).
wait_for() {
  local what=$1 end=$((SECONDS + ${WAIT_S:-30}))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "waited in vain for $what"
    sleep 0.02
  done
}
# skip REASON: ends the test as skipped; scripts/test lists the reason.
skip() {
  echo "skipped: $*"
  exit 77
}
# expect WANTED GOT WHAT
expect() { [ "$1" = "$2" ] || fail "$3: wanted '$1', got '$2'"; }
field() { divvy show "$1" --json | grep -oE "\"$2\":(\"[^\"]*\"|[^,}]*)" | head -n 1 | cut -d: -f2- | tr -d '"'; }
state_is() { [ "$(field "$1" state)" = "$2" ]; }
queue_is_empty() { [ "$(divvy queue --json)" = "[]" ]; }
count_in_state() { divvy queue --json --state "$1" | grep -o '"display_id"' | wc -l; }
running_are() { [ "$(count_in_state running)" = "$1" ]; }
daemon_pid() { divvy status --json | grep -oE '"pid":[0-9]+' | cut -d: -f2; }
# up_at PORT [OPTION...]: starts a daemon that listens for other machines on the port ("": a free one), and sets $port.
up_at() {
  local wanted=$1
  shift
  for try in 1 2 3 4 5; do
    port=${wanted:-$((20000 + (RANDOM + $$) % 12000))}
    ! divvy up --quiet "$@" --listen "127.0.0.1:$port" 2>up.log || return 0
    grep -q "Address already in use" up.log || fail "did not start: $(cat up.log)"
  done
  fail "found no free port: $(cat up.log)"
}
up_listening() { up_at "${1:-}" --emulate 2xH100-80GB; }

# with_machines: other nodes of this test, as folders in $machines; `on NAME COMMAND...` runs a command on one. Their
# agents end with the test, after its jobs, and so do all processes on a node that the controller has given up.
end_agents() {
  local pids
  for _ in $(seq 500); do
    pids=$(grep -lsF "$machines/" /proc/[0-9]*/environ | cut -d/ -f3)
    [ -n "$pids" ] || break
    kill -9 $pids 2>/dev/null || true
    sleep 0.02
  done
}
with_machines() {
  machines=$(mktemp -d)
  trap 'clean_up; end_agents; rm -rf "$machines"' EXIT
}
on() { DIVVY_HOME=$machines/$1 "$divvy_binary" "${@:2}"; }
agent_pid() { cat "$machines/$1/agent/agent.lock"; }
# When this returns, the agent has ended and its lock is free.
kill_agent() {
  local pid
  pid=$(agent_pid "$1")
  kill -9 "$pid"
  wait_for "$1's end" sh -c "! grep -qs '^State:[[:space:]]*[^Z[:space:]]' /proc/$pid/status"
}
# interrupt_twice PID FILE: sends Ctrl-C to srun until two arrive within a second; srun's answers are in the file. On a
# busy machine more time may pass between two, so that the second counts as another first one. Also used in job scripts.
interrupt_twice() {
  local heard=0
  while kill -INT "$1" 2>/dev/null; do
    until [ "$(grep -c "one more within 1 sec" "$2")" -gt $heard ] || ! kill -0 "$1" 2>/dev/null; do sleep 0.02; done
    heard=$(grep -c "one more within 1 sec" "$2" || true)
  done
}
node_state() { divvy nodes --csv | grep "^$1," | cut -d, -f2; }
node_is() { [ "$(node_state "$1")" = "$2" ]; }
