#!/usr/bin/env bash
# The daemon reads a job's log for its user, from a path that the job names: it must read nothing that the user cannot.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip "no curl"
serve
secret="only bob may read this"

# Through the root directory of a process of bob's, which the kernel shows to those who may trace it.
as bob divvy submit --quiet --private-tmp -- sh -c "echo '$secret' >/tmp/secret; sleep 1000" >/dev/null
wait_for "bob's job" state_is 1 running
pid=$(first_process 1)
wait_for "bob's secret" grep -q "$secret" "/proc/$pid/root/tmp/secret"
as alice cat "/proc/$pid/root/tmp/secret" 2>/dev/null && fail "alice can read the file by herself"
# refused PATH WHAT: alice has the daemon read this path as her job's output.
refused() {
  local job answer
  job=$(as alice divvy submit --quiet --output "$1" -- true)
  as alice divvy wait "$job" >/dev/null 2>&1 || true
  answer=$(log_by_api alice "$job")
  ! grep -qE "$2" <<<"$answer" || fail "the daemon read $1 for alice: $answer"
}
refused "/proc/$pid/root/tmp/secret" "$secret"
# Through a link of alice's own, which is no other path to the kernel.
as alice ln -s "/proc/$pid/root/tmp" elsewhere
refused /var/lib/home/alice/elsewhere/secret "$secret"
# The daemon's own memory map.
refused "/proc/$(daemon_pid)/maps" "r-xp|rw-p"
# A file of bob's.
as bob sh -c "umask 077; echo '$secret' >secret"
chmod 711 /var/lib/home/bob
refused /var/lib/home/bob/secret "$secret"

# What alice may read she gets: her own log, and a file that she names.
job=$(as alice divvy submit --quiet -- echo to the log)
as alice divvy wait "$job" >/dev/null
log_by_api alice "$job" | grep -q "to the log" || fail "the log of alice's own job: $(log_by_api alice "$job")"
job=$(as alice divvy submit --quiet --output named -- echo to the file)
as alice divvy wait "$job" >/dev/null
log_by_api alice "$job" | grep -q "to the file" || fail "the file that alice named: $(log_by_api alice "$job")"
divvy cancel --all --grace 0 >/dev/null
wait_for "an empty queue" queue_is_empty
divvy down >/dev/null
