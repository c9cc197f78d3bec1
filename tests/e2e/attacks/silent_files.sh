#!/usr/bin/env bash
# alice names files in a file system of hers (FUSE) that never answers. Her jobs must not keep GPUs for longer than other
# jobs, and only what a stuck process still uses may be withheld.
. "$(dirname "$0")/lib.sh"
[ -c /dev/fuse ] || skip "no /dev/fuse"
serve
own=/var/lib/home/alice/silent shared=/var/lib/tmp/shared
install -d -o alice -g alice "$own"
install -d -o bob -g bob "$shared"
/usr/bin/python3 "$attacks/silent.py" 61001 "$own" >own.out &
wait_for "alice's file system" grep -q mounted own.out || skip "no FUSE"
/usr/bin/python3 "$attacks/silent.py" 61002 "$shared" allow_other >shared.out &
of_bob=$!
wait_for "bob's file system" grep -q mounted shared.out
says() { as alice divvy why "$1" | grep -q "$2"; }

# The start waits for the directory. It can be cancelled, and ends at the time limit.
job=$(as alice divvy submit --quiet --gpus 4 --chdir "$own" -- sleep 1000)
wait_for "the reason of a start that waits" says "$job" "does not answer"
as alice divvy cancel "$job" >/dev/null
WAIT_S=10 wait_for "the end of a job that waits for its directory" state_is "$job" cancelled
job=$(as alice divvy submit --quiet --gpus 4 --time 3s --chdir "$own" -- true)
WAIT_S=20 wait_for "the end of the start at the time limit" state_is "$job" failed
says "$job" "did not answer" || fail "no reason: $(as alice divvy why "$job")"
# The same for its program and its output.
job=$(as alice divvy submit --quiet --gpus 4 --time 3s -- "$own/program")
WAIT_S=20 wait_for "the end of a job whose program does not answer" state_is "$job" failed
job=$(as alice divvy submit --quiet --gpus 4 --time 3s --output "$shared/out" -- true)
WAIT_S=30 wait_for "the end of a job whose output does not answer" state_is "$job" failed
job=$(as bob divvy submit --quiet --gpus 4 -- true)
WAIT_S=10 wait_for "bob's job" state_is "$job" succeeded

# Running processes are stuck: one in alice's own file system, one in bob's.
is_stuck() { grep -q '^State:.D' "/proc/$(first_process "$1")/status"; }
mine=$(as alice divvy submit --quiet --gpus 2 -- cat "$own/file")
other=$(as alice divvy submit --quiet --gpus 1 -- cat "$shared/file")
wait_for "the first stuck process" is_stuck "$mine"
wait_for "the second stuck process" is_stuck "$other"
as alice divvy cancel --grace 0 "$mine" "$other" >/dev/null
bobs=$(as bob divvy submit --quiet --gpus 3 -- true)
WAIT_S=60 wait_for "the end of alice's own file system" state_is "$mine" cancelled
WAIT_S=10 wait_for "bob's job on the GPUs that are free again" state_is "$bobs" succeeded
# divvy does not end the file system of another user. Its GPU is withheld, and everybody learns why.
wait_for "the reason" says "$other" "has not ended 30 s after SIGKILL"
says "$other" "cancelled by alice" || fail "the reason of the end is lost: $(as alice divvy why "$other")"
state_is "$other" stopping || fail "job $other is $(field "$other" state)"
as bob divvy gpus | grep -qE "\b$other\b.*cat" || fail "divvy gpus does not name job $other: $(as bob divvy gpus)"
kill -9 "$of_bob"
wait "$of_bob" || true
WAIT_S=10 wait_for "the end of the job" state_is "$other" cancelled
job=$(as bob divvy submit --quiet --gpus 4 -- true)
WAIT_S=10 wait_for "bob's last job" state_is "$job" succeeded
end_jobs
