#!/usr/bin/env bash
# The daemon reads a job's log for its user from a path that the job names. It must not read anything that the user
# cannot read.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip "no curl"
serve
secret="only bob may read this"

# Through the root directory of a process of bob's, which the kernel shows only to processes that may trace it.
as bob divvy submit --quiet --private-tmp -- sh -c "echo '$secret' >/tmp/secret; sleep 1000" >/dev/null
wait_for "bob's job" state_is 1 running
pid=$(first_process 1)
wait_for "bob's secret" grep -q "$secret" "/proc/$pid/root/tmp/secret"
as alice cat "/proc/$pid/root/tmp/secret" 2>/dev/null && fail "alice can read the file by herself"
# refused PATH WHAT: alice makes the daemon read this path as the output of her job.
refused() {
  local job answer
  job=$(as alice divvy submit --quiet --output "$1" -- true)
  as alice divvy wait "$job" >/dev/null 2>&1 || true
  answer=$(log_by_api alice "$job")
  ! grep -qE "$2" <<<"$answer" || fail "the daemon read $1 for alice: $answer"
}
refused "/proc/$pid/root/tmp/secret" "$secret"
# Through a link of alice's own, which the kernel treats like the path itself.
as alice ln -s "/proc/$pid/root/tmp" elsewhere
refused /var/lib/home/alice/elsewhere/secret "$secret"
# The daemon's own memory map.
refused "/proc/$(daemon_pid)/maps" "r-xp|rw-p"
# A file of bob's.
as bob sh -c "umask 077; echo '$secret' >secret"
chmod 711 /var/lib/home/bob
refused /var/lib/home/bob/secret "$secret"

# The same path for writing: the supervisor of a job with a terminal opens the file that the job names.
as bob divvy submit --quiet --private-tmp -- sh -c 'umask 0; echo intact >/tmp/open-to-all; sleep 1000' >/dev/null
bobs=$(divvy queue --json --user bob | grep -oE '"id":[0-9]+' | cut -d: -f2 | sort -n | tail -n 1)
wait_for "bob's second job" state_is "$bobs" running
pid=$(first_process "$bobs")
wait_for "bob's file" grep -q intact "/proc/$pid/root/tmp/open-to-all"
for path in "/proc/$pid/root/tmp/open-to-all" "/proc/$pid/root/tmp/new" "/proc/$(daemon_pid)/oom_score_adj"; do
  job=$(as alice divvy submit --quiet --pty --output "$path" -- echo overwritten)
  as alice divvy wait "$job" >/dev/null 2>&1 || true
done
expect intact "$(cat "/proc/$pid/root/tmp/open-to-all")" "bob's file, named as the output of alice's job with a terminal"
[ ! -e "/proc/$pid/root/tmp/new" ] || fail "alice made a file in bob's /tmp"

# alice can read what she is allowed to: her own log, and a file that she names.
job=$(as alice divvy submit --quiet -- echo to the log)
as alice divvy wait "$job" >/dev/null
log_by_api alice "$job" | grep -q "to the log" || fail "the log of alice's own job: $(log_by_api alice "$job")"
job=$(as alice divvy submit --quiet --output named -- echo to the file)
as alice divvy wait "$job" >/dev/null
log_by_api alice "$job" | grep -q "to the file" || fail "the file that alice named: $(log_by_api alice "$job")"
