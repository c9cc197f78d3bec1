#!/usr/bin/env bash
# Checks that alice cannot read the private data of bob's jobs, and cannot place her jobs before his by priority.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip "no curl"
serve
ask() { as "$1" curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy$2"; }
clear_queue() {
  for user in alice bob; do divvy cancel --user $user --grace 0 >/dev/null 2>&1 || true; done
  wait_for "an empty queue" queue_is_empty
}
secret=takeover-of-acme

# The reason of a failed job names a directory of bob's.
as bob mkdir "$secret"
job=$(cd / && as bob sh -c "cd $secret && divvy submit --quiet --hold --name plan-b -- true")
as bob rmdir "$secret"
as bob divvy release "$job" >/dev/null
as bob divvy wait "$job" >/dev/null 2>&1 || true
as bob divvy show "$job" | grep -q "$secret" || fail "bob is not told which directory: $(as bob divvy show "$job")"
for what in "/v1/jobs/$job" "/v1/jobs?includes_final=1" "/v1/jobs/$job/why" "/v1/jobs/$job/wait" "/v1/history"; do
  ! ask alice "$what" | grep -q "$secret" || fail "alice reads at $what: $(ask alice "$what")"
done
as alice divvy show "$job" | grep -q "plan-b" || fail "names are no secret here: $(as alice divvy show "$job")"

# Priorities.
as alice divvy submit --hold --priority 1000000 -- true >answer 2>&1 && fail "alice has a priority above others'"
grep -q "a priority above 0 takes an administrator" answer || fail "the refusal says: $(cat answer)"
low=$(as alice divvy submit --quiet --hold --priority -5 -- true) || fail "alice may not lower her priority"
as alice divvy update "$low" --priority 1 >/dev/null 2>&1 && fail "alice raises her priority later"
divvy update "$low" --priority 7 >/dev/null || fail "an administrator may not raise it"
clear_queue

# Jobs are private.
divvy down >/dev/null
printf '[privacy]\njobs = "own"\n[priorities]\nusers_may_raise = true\n' >/etc/divvy/divvy.toml
divvy up --quiet --emulate 4xA100-40GB
job=$(as bob divvy submit --quiet --gpus 1 --name "$secret" --comment "$secret" -- sleep 1000)
wait_for "bob's job" state_is "$job" running
for what in "/v1/jobs/$job" /v1/jobs /v1/gpus /v1/latest /v1/waste /v1/history /metrics "/v1/reports/usage?by=name" "/v1/reports/usage?by=job"; do
  ! ask alice "$what" | grep -q "$secret" || fail "alice reads at $what: $(ask alice "$what")"
done
as alice divvy queue | grep -q bob || fail "alice does not see that bob has a job: $(as alice divvy queue)"
as bob divvy queue | grep -q "$secret" || fail "bob does not see the name of his job: $(as bob divvy queue)"
divvy queue | grep -q "$secret" || fail "root does not see it: $(divvy queue)"
as alice divvy submit --quiet --hold --priority 5 -- true >/dev/null || fail "users_may_raise does not let alice raise"
clear_queue
