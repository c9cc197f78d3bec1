#!/usr/bin/env bash
# A full disk on another node: the node reports it and takes no more jobs. A job on its way there waits and runs
# elsewhere. Running jobs continue, and their exit codes are known. Once there is room, the node takes work again.
# Skipped (77) if no small disk can be mounted.
set -eu
if [ -z "${DIVVY_SMALL_DISK:-}" ]; then
  if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
    echo "skipped: mounting takes root and a mount namespace (unshare -m)"
    exit 77
  fi
  DIVVY_SMALL_DISK=$(mktemp -d)
  export DIVVY_SMALL_DISK
  unshare -m sh -c 'mount -t tmpfs -o size=24m small "$DIVVY_SMALL_DISK" && exec "$0"' "$0" && rc=0 || rc=$?
  rmdir "$DIVVY_SMALL_DISK"
  exit $rc
fi
. "$(dirname "$0")/lib.sh"

up_listening
with_machines
divvy token create --node --uses 2 >token 2>/dev/null
ln -s "$DIVVY_SMALL_DISK" "$machines/n1"
for name in n1 n2; do
  on $name agent --join-file token --name $name --emulate 2xA100-40GB --detach --quiet || fail "$name did not join"
done
reason_of() { divvy nodes | grep "^$1 "; }
says() { reason_of "$1" | grep -q "$2"; }
on_machine() { divvy submit --quiet --gpu-type a100 --gpus 1 "$@"; }

keeps=$(on_machine --nodelist n1 -- sh -c 'while [ ! -e "$1" ]; do sleep 0.02; done; exit 9' sh "$DIVVY_HOME/go")
wait_for "the first job" state_is "$keeps" running

# The first job is refused by the node, or the node has reported the problem by then. In both cases the job is not lost.
fill() { cat /dev/zero >"$DIVVY_SMALL_DISK/filler.$1" 2>/dev/null || true; }
fill first
first=$(on_machine --nodelist n1,n2 -- hostname)
second=$(on_machine -- true)
wait_for "a job that n1 was to run" state_is "$first" succeeded
wait_for "another" state_is "$second" succeeded
waits=$(on_machine --nodelist n1 -- true)
wait_for "n1 to say what is the matter" says n1 'unfit.*its disk is full: .* under .*/agent/'
wait_for "the queue to say so" sh -c "'$divvy_binary' why $waits | grep -q 'n1: its disk is full'"
state_is "$waits" queued || fail "job $waits is $(field "$waits" state)"
state_is "$keeps" running || fail "what runs there is $(field "$keeps" state)"

# A job ends on a full disk, and an agent starts on one.
touch go
wait_for "the end of what ran there" state_is "$keeps" failed
expect 9 "$(field "$keeps" exit_code)" "its exit code"
kill_agent n1
fill again
on n1 agent --detach --quiet || fail "n1 did not come back on a full disk"
wait_for "n1 to say it again" says n1 "its disk is full"
state_is "$waits" queued || fail "job $waits is $(field "$waits" state)"

# A new process of the controller has a new epoch, which the agent cannot store.
divvy down >/dev/null
up_at "$port" --emulate 2xH100-80GB
wait_for "n1 to be connected to the new controller" says n1 "its disk is full"

rm "$DIVVY_SMALL_DISK"/filler.*
wait_for "the job, now that there is room" state_is "$waits" succeeded
! says n1 "full" || fail "n1 still says: $(reason_of n1)"
echo "full_node: passed"
