#!/usr/bin/env bash
# alice fills the store and the daemon's memory with the data of her waiting jobs, and the queue with jobs.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip "no curl"
serve
memory() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$daemon/status"; }
# submit USER MIB FIELD: submits a held job with MIB MiB of data replacing "VALUE" in FIELD; prints the answer.
submit() {
  {
    printf '{"spec": {"command": ["true"], "directory": "/", "is_held": true, '
    head -c $(($2 << 20)) /dev/zero | tr '\0' x | sed "s|^|${3%%VALUE*}|; s|\$|${3#*VALUE}|"
    printf '}}'
  } >/var/lib/tmp/body
  as "$1" curl -sS --unix-socket /run/divvy/divvy.sock -H 'Expect:' --data-binary @/var/lib/tmp/body http://divvy/v1/jobs
}
clear_queue() {
  for user in root alice bob; do divvy cancel --user $user --grace 0 >/dev/null 2>&1 || true; done
  wait_for "an empty queue" queue_is_empty
}
environment='"capture": {"environment": ["A=VALUE"]}'
submit alice 28 "$environment" | grep -qE '"(invalid_argument|limit_exceeded)"' || fail "an environment of 28 MiB is taken"
submit alice 2 "$environment" | grep -q "the environment has 2097155 bytes, but a job may have at most 1048576" || fail "an environment of 2 MiB is taken"
answer=$(submit alice 5 '"command": [], "script": "#!/bin/sh VALUE"')
grep -q "the script is larger than 4 MiB" <<<"$answer" || fail "a script of 5 MiB is answered: $answer"
wait_for "an empty queue" queue_is_empty

divvy down >/dev/null
serve '[queue]' 'max_queued_of_user = 100' '[jobs]' 'root_jobs = true'
daemon=$(daemon_pid)
before=$(memory)
as alice divvy submit --hold --array 0-99 -- true >/dev/null
as alice divvy submit --hold -- true >answer 2>&1 && fail "alice has more than 100 jobs in the queue"
grep -q "user alice has 100 of at most 100 jobs in the queue" answer || fail "the refusal says: $(cat answer)"
as alice divvy submit --hold --array 0-1000 -- true >/dev/null 2>&1 && fail "alice has an array of 1,001 jobs in the queue"
as bob divvy submit --hold -- true >/dev/null || fail "bob is refused for alice's jobs"
divvy submit --hold --array 0-999 -- true >/dev/null || fail "an administrator is refused"
clear_queue

# The memory of jobs of the maximum size is released with them.
for _ in $(seq 60); do
  { printf '{"spec": {"command": ["true"], "directory": "/", "is_held": true, "capture": {"environment": ["A='
    head -c 1000000 /dev/zero | tr '\0' x; printf '"]}}}'; } >/var/lib/tmp/body
  as alice curl -sS --unix-socket /run/divvy/divvy.sock -H 'Expect:' --data-binary @/var/lib/tmp/body http://divvy/v1/jobs >/dev/null
done
expect 60 "$(count_in_state held)" "large jobs of alice's in the queue"
full=$(memory)
as alice divvy cancel --all >/dev/null
wait_for "an empty queue" queue_is_empty
after=$(memory)
echo "memory: $((before / 1024)) MiB; with 60 jobs of 1 MB: $((full / 1024)) MiB; once they are cancelled: $((after / 1024)) MiB"
[ $((after - before)) -lt 65536 ] || fail "the daemon keeps $(((after - before) / 1024)) MiB of cancelled jobs"
