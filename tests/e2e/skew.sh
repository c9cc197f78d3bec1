#!/usr/bin/env bash
# Nodes whose clocks are an hour fast or slow. They join, and jobs there start, are timed and end as on any other node,
# over kill -9 of the controller and of their agents. Times are those of the controller's clock. Skipped (77) without a
# C compiler.
. "$(dirname "$0")/lib.sh"
command -v cc >/dev/null || skip "there is no C compiler to make another clock with (apt-get install gcc)"
cat >skew.c <<'EOF'
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long skew(void) {
  const char* text = getenv("TEST_SKEW");
  return text ? atol(text) : 0;
}
int clock_gettime(clockid_t clock, struct timespec* now) {
  int rc = (int)syscall(SYS_clock_gettime, clock, now);
  if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += skew();
  return rc;
}
int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (out) *out = precise.tv_sec;
  return precise.tv_sec;
}
EOF
clock=$PWD/skew.so
cc -shared -fPIC -O1 -o "$clock" skew.c || fail "the other clock was not made"
TEST_SKEW=3600 LD_PRELOAD=$clock sh -c 'expr "$(date +%s)" - "$1" ' sh "$(date +%s)" >ahead
[ "$(cat ahead)" -ge 3599 ] || fail "the other clock is not ahead: $(cat ahead)"

port=
printf '[controller]\nrequeue_lost_after = "10m"\nlost_after = "5s"\n' >divvy.toml
up_listening
with_machines
divvy token create --node --uses 2 >token 2>/dev/null
# start NAME SKEW WORDS...
start() {
  DIVVY_HOME=$machines/$1 TEST_SKEW=$2 LD_PRELOAD=$clock "$divvy_binary" agent --emulate 2xA100-40GB --detach --quiet "${@:3}"
}
start fast 3600 --join-file "$DIVVY_HOME/token" --name fast || fail "the fast one did not join"
start slow -3600 --join-file "$DIVVY_HOME/token" --name slow || fail "the slow one did not join"

# near WHAT JOB: checks that a time of the job is by our clock, not by one that is an hour ahead or behind.
near() {
  local at now
  at=$(field "$2" "$1")
  now=$(date +%s)
  [ "${at%.*}" -ge $((now - 1800)) ] && [ "${at%.*}" -le $((now + 1800)) ] || fail "$1 of job $2 is $at, now is $now"
}
for name in fast slow; do
  divvy nodes --csv | grep -q "^$name,up," || fail "$name is $(node_state $name)"
  id=$(divvy submit --quiet --gpus 1 --nodelist $name -- sh -c 'exit 4')
  divvy wait "$id" >/dev/null || true
  expect 4 "$(field "$id" exit_code)" "the exit code on $name"
  near start_time "$id"
  near end_time "$id"
  skewed=$(($(date -u -d "$(head -n 1 "$machines/$name/agent/agent.log" | cut -d' ' -f1)" +%s) - $(date +%s)))
  [ "${skewed#-}" -ge 3500 ] || fail "the agent on $name has our clock: $skewed"
  # A time limit measures elapsed time, not the clock.
  id=$(divvy submit --quiet --gpus 1 --nodelist $name --time 2s -- sleep 86431)
  wait_for "the start on $name" state_is "$id" running
  divvy wait "$id" >/dev/null || true
  expect timed_out "$(field "$id" state)" "the state of what ran too long on $name"
  near end_time "$id"
  ran=$(($(field "$id" end_time | cut -d. -f1) - $(field "$id" start_time | cut -d. -f1)))
  [ $ran -ge 1 ] && [ $ran -le 1800 ] || fail "the limit of 2 s on $name came after $ran s"
done

# Both sides are killed under a gang on both nodes. It continues, and its end is known.
id=$(divvy submit --quiet --gpus 1 --nodes 2 --nodelist fast,slow -- sh -c 'until [ -e "$1" ]; do sleep 0.02; done; exit 3' sh "$DIVVY_HOME/go")
wait_for "the gang" state_is "$id" running
kill_agent fast
kill_agent slow
kill -9 "$(daemon_pid)"
up_listening "$port"
start fast 3600 || fail "the fast one did not come back"
start slow -3600 || fail "the slow one did not come back"
wait_for "fast" node_is fast up
wait_for "slow" node_is slow up
expect running "$(field "$id" state)" "the gang after all that"
touch go
divvy wait "$id" >/dev/null || true
expect 3 "$(field "$id" exit_code)" "its exit code"
near end_time "$id"
echo "skew: passed"
