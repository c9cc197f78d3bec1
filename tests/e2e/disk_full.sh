#!/usr/bin/env bash
# A full disk: new work is refused with the name of the disk, running jobs continue and can be stopped, and the daemon
# can be ended. Once there is room, everything continues, and nothing acknowledged is lost. The daemon's state is on a
# small file system in a mount namespace that ends with the test. Skipped (77) if none can be mounted.
set -eu
if [ -z "${DIVVY_SMALL_DISK:-}" ]; then
  DIVVY_SMALL_DISK=$(mktemp -d)
  export DIVVY_SMALL_DISK
  trap 'rm -rf "$DIVVY_SMALL_DISK" "$DIVVY_SMALL_DISK.out"' EXIT
  mount='mount -t tmpfs -o size=12m,mode=0777 small "$DIVVY_SMALL_DISK" && exec "$@"'
  namespace=(unshare -m) user=()
  if [ "$(id -u)" != 0 ]; then
    namespace=(unshare -rm)
    # Mounting needs root in the namespace. But a daemon that runs as root would change users, which it cannot do here.
    user=(unshare -U "--map-user=$(id -u)" "--map-group=$(id -g)")
  fi
  if ! "${namespace[@]}" sh -c "$mount" sh ${user[@]+"${user[@]}"} true 2>"$DIVVY_SMALL_DISK.out"; then
    echo "skipped: no small file system can be mounted here: $(cat "$DIVVY_SMALL_DISK.out")"
    exit 77
  fi
  "${namespace[@]}" sh -c "$mount" sh ${user[@]+"${user[@]}"} "$0" || exit $?
  exit 0
fi
elsewhere=$DIVVY_SMALL_DISK.out # The test's own files must not need room on the small disk.
rm -rf "$elsewhere"
mkdir "$elsewhere"
TMPDIR=$DIVVY_SMALL_DISK
export TMPDIR
. "$(dirname "$0")/lib.sh"

fill() { cat /dev/zero >filler 2>/dev/null || true; }
# submit_until_refused COMMAND...: submits until it is refused. Acknowledged ids go to $elsewhere/acknowledged.
submit_until_refused() {
  for _ in $(seq 500); do
    divvy submit --quiet --hold -- "$@" >>"$elsewhere/acknowledged" 2>"$elsewhere/refusal" || return 0
  done
  fail "500 submissions were accepted on a full disk"
}
all_acknowledged_are_known() {
  divvy queue --csv --no-header -o id --state held --limit 0 | sort -n >"$elsewhere/known"
  [ -s "$elsewhere/acknowledged" ] || fail "nothing was acknowledged"
  sort -n "$elsewhere/acknowledged" >"$elsewhere/wanted"
  uniq -d "$elsewhere/wanted" | grep -q . && fail "an id was given out twice"
  diff "$elsewhere/wanted" "$elsewhere/known" >&2 || fail "$1: what was acknowledged (<) is not what is known (>)"
}

divvy up --quiet --emulate 8xH100-80GB
divvy submit --quiet --hold -- true >>"$elsewhere/acknowledged"
keeps=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e "$1" ]; do sleep 0.02; done; exit 9' sh "$elsewhere/go")
victim=$(divvy submit --quiet --gpus 1 -- sleep 87653)
wait_for "the first job" state_is "$keeps" running
wait_for "the second job" state_is "$victim" running
pid=$(field "$keeps" pid)
victim_pid=$(field "$victim" pid)

fill
submit_until_refused true
grep -q "disk is full" "$elsewhere/refusal" || fail "the refusal does not name the disk: $(cat "$elsewhere/refusal")"
grep -q "free space under $DIVVY_HOME" "$elsewhere/refusal" || fail "the refusal does not say where: $(cat "$elsewhere/refusal")"
all_acknowledged_are_known "on the full disk"
state_is "$keeps" running || fail "the running job is $(field "$keeps" state)"

# The answer may have to wait for disk space; stopping the job does not.
divvy cancel "$victim" >"$elsewhere/cancelled" 2>&1 &
canceller=$!
wait_for "the end of the job that is cancelled on a full disk" sh -c "! kill -0 $victim_pid"
kill -0 "$pid" || fail "the other running job did not go on"
touch "$elsewhere/go"
wait_for "the end of the running job" sh -c "! kill -0 $pid"

rm filler
wait "$canceller" || fail "the cancellation was answered with: $(cat "$elsewhere/cancelled")"
wait_for "the cancelled job" state_is "$victim" cancelled
wait_for "the job that ended on a full disk" state_is "$keeps" failed
expect 9 "$(field "$keeps" exit_code)" "its exit code"
submit_again() { divvy submit --quiet --hold -- true >>"$elsewhere/acknowledged"; }
wait_for "submissions to work again" submit_again
divvy status --json | grep -q '"accepts_work":true' || fail "it takes work and says that it does not"
ran=$(divvy submit --quiet --gpus 1 -- true)
wait_for "a job after all that" state_is "$ran" succeeded
all_acknowledged_are_known "with room again"

# Neither kill -9 nor an orderly shutdown on a full disk loses an acknowledged job.
fill
submit_until_refused true
kill -9 "$(daemon_pid)"
rm filler
divvy up --quiet --emulate 8xH100-80GB
all_acknowledged_are_known "after kill -9 on a full disk"
fill
submit_until_refused true
timeout 20 divvy down >/dev/null || fail "the daemon does not end on a full disk"
rm filler
divvy up --quiet --emulate 8xH100-80GB
all_acknowledged_are_known "after divvy down on a full disk"
echo "disk_full: $(wc -l <"$elsewhere/acknowledged") acknowledged, none lost"
