# Sourced by the end-to-end tests: a private daemon on stand-in GPUs, and its end by its own command. A test waits for conditions,
# with a deadline; it never just sleeps.
#
# With DIVVY_ON_MACHINE=1 the daemon is not a private one but the machine's, which is not root and has a launcher, in a machine of its own.
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
# Jobs outlive their daemon, also the one of a test that failed.
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
# wait_for WHAT COMMAND...: until the command succeeds, at most 30 s, or WAIT_S.
wait_for() {
  local what=$1 end=$((SECONDS + ${WAIT_S:-30}))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "waited in vain for $what"
    sleep 0.02
  done
}
# skip REASON: what is missing, for the list of scripts/test.
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
# up_listening [PORT]: a daemon that listens for other machines there, or at a free port, and says so in $port.
up_listening() {
  for try in 1 2 3 4 5; do
    port=${1:-$((20000 + (RANDOM + $$) % 12000))}
    ! divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port" 2>up.log || return 0
    grep -q "Address already in use" up.log || fail "did not start: $(cat up.log)"
  done
  fail "found no free port: $(cat up.log)"
}

# with_machines: other machines of this test, as folders of $machines: `on NAME COMMAND...` is a command there. Their agents end with
# the test, after its jobs, and so does whatever runs on a machine that the controller has given up.
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
# Has gone, lock and all, when this returns.
kill_agent() {
  local pid
  pid=$(agent_pid "$1")
  kill -9 "$pid"
  wait_for "$1's end" sh -c "! grep -qs '^State:[[:space:]]*[^Z[:space:]]' /proc/$pid/status"
}
# interrupt_twice PID FILE: Ctrl-C to srun, until one comes within a second of the one before; what srun answers goes to the file. On a
# busy machine more time may pass between two, and then the second is another first one. For scripts of jobs as well.
interrupt_twice() {
  local heard=0
  while kill -INT "$1" 2>/dev/null; do
    until [ "$(grep -c "one more within 1 sec" "$2")" -gt $heard ] || ! kill -0 "$1" 2>/dev/null; do sleep 0.02; done
    heard=$(grep -c "one more within 1 sec" "$2" || true)
  done
}
node_state() { divvy nodes --csv | grep "^$1," | cut -d, -f2; }
node_is() { [ "$(node_state "$1")" = "$2" ]; }
