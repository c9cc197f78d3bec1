#!/usr/bin/env bash
# kill -9 of the daemon under foreground jobs, once while they run and twice while they wait. Each ends on the streams
# of its caller and with its true exit code. A client that is ended while no daemon runs exits at once.
. "$(dirname "$0")/lib.sh"
up() { divvy up --quiet --emulate 1xH100-80GB; }
# run_as NAME COMMAND...: runs divvy run in the background and writes NAME.out, NAME.err, NAME.code and NAME.pid.
run_as() {
  local name=$1
  shift
  (
    code=0
    echo "in:$name" | { sh -c 'echo $$ >"$0.pid"; exec divvy run --gpus 1 --name "$0" -- "$@"' "$name" "$@" >"$name.out" 2>"$name.err"; } || code=$?
    echo "$code" >"$name.code"
  ) &
}
queued_are() { [ "$(count_in_state queued)" = "$1" ]; }
ended() { [ -s "$1.code" ]; }
kill_daemon() {
  local pid
  pid=$(daemon_pid)
  kill -9 "$pid" "$@"
  wait_for "the daemon's end" gone "$pid"
}
gone() { ! kill -0 "$1"; }
noticed() { grep -q "went away" "$1.err"; }

up
run_as running sh -c 'read -r word; echo "$word begins"; while [ ! -e go ]; do sleep 0.05; done; echo "$word ends"; exit 5'
wait_for "the running job" running_are 1
run_as waiting sh -c 'read -r word; echo "got $word"; echo "err $word" >&2; exit 6'
run_as leaving true
# Waits until each client has its answer, not only until its job is queued.
for name in waiting leaving; do wait_for "the waiting jobs" grep -q "is queued" $name.err; done
wait_for "the waiting jobs" queued_are 2
for round in 1 2; do
  kill_daemon
  wait_for "the clients to notice" noticed running
  wait_for "the clients to notice" noticed waiting
  if [ "$round" = 1 ]; then
    wait_for "the clients to notice" noticed leaving
    kill -TERM "$(cat leaving.pid)"
    wait_for "the client that is ended without a daemon" ended leaving
    expect 143 "$(cat leaving.code)" "its exit code"
  fi
  up
  divvy cancel --name leaving >/dev/null
  wait_for "the waiting job in the queue" queued_are 1
done
touch go
wait_for "the running job's end" ended running
wait_for "the waiting job's end" ended waiting
expect 5 "$(cat running.code)" "the exit code of the job that ran through it"
expect "in:running begins in:running ends" "$(tr '\n' ' ' <running.out | sed 's/ $//')" "its output"
expect 6 "$(cat waiting.code)" "the exit code of the job that waited through it ($(cat waiting.err))"
expect "got in:waiting" "$(cat waiting.out)" "its output"
grep -qx "err in:waiting" waiting.err || fail "its errors went elsewhere: $(cat waiting.err)"
expect 1 "$(grep -c "went away" waiting.err)" "how often the client speaks of the daemon's end"

# A job whose caller has gone does not hold a GPU forever: it fails if its caller does not return.
if [ -n "${DIVVY_LONG:-}" ]; then
  keeps=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e go2 ]; do sleep 0.05; done')
  wait_for "the job before it" state_is "$keeps" running
  run_as orphan true
  wait_for "the orphan in the queue" queued_are 1
  kill_daemon "$(cat orphan.pid)"
  touch go2
  up
  wait_for "the orphan's end" queue_is_empty
  expect failed "$(divvy queue --all --csv --no-header -o state --name orphan)" "the state of the orphan"
fi
echo "foreground_kill9: callers kept their streams and exit codes"
