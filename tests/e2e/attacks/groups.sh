#!/usr/bin/env bash
# alice gives her jobs the names of groups that limit bob's jobs, and herself, and changes their limits.
. "$(dirname "$0")/lib.sh"
command -v curl >/dev/null || skip "no curl"
serve
divvy teams user alice --max-running 1 >/dev/null
set_limit() { # GROUP LIMIT, as alice
  as alice curl -sS --unix-socket /run/divvy/divvy.sock -d "{\"group\":\"$1\",\"limit\":$2}" http://d/v1/groups/limit
}
for _ in 1 2; do as bob divvy submit --quiet --group nightly --group-limit 2 -- sleep 1000 >/dev/null; done
wait_for "bob's jobs" running_are 2

# Her group of the same name is another one: bob's jobs do not count, and her limit is not bob's.
set_limit nightly 1 | grep -q "no queued or running job of yours is in group" || fail "alice limits bob's group"
mine=$(as alice divvy submit --quiet --group nightly --group-limit 1 -- sleep 1000)
wait_for "alice's job" state_is "$mine" running
set_limit nightly 1 >/dev/null
third=$(as bob divvy submit --quiet --group nightly --group-limit 3 -- sleep 1000)
wait_for "bob's third job" state_is "$third" running
set_limit nightly 1 >/dev/null
fourth=$(as bob divvy submit --quiet --group nightly -- sleep 1000)
as bob divvy why "$fourth" | grep -q "group nightly of bob runs 3 of at most 3" || fail "bob's limit is: $(as bob divvy why "$fourth")"

# Groups that limit users, teams, pools and arrays.
array=$(as bob divvy submit --quiet --hold --array 0-9%4 -- true)
held=$(as alice divvy submit --quiet --hold -- true)
for group in "user alice" "user bob" "team vision" "pool small" "array $array"; do
  ! as alice divvy update "$held" --group "$group" >answer 2>&1 || fail "alice moves a job into group '$group'"
  grep -q "a group cannot be called '$group'" answer || fail "the refusal says: $(cat answer)"
  ! as alice divvy submit --quiet --group "$group" -- true >/dev/null 2>&1 || fail "alice submits into group '$group'"
  ! set_limit "$group" 1000 | grep -q '"is_done":true' || fail "alice limits group '$group'"
done
more=$(as alice divvy submit --quiet -- sleep 1000)
as alice divvy why "$more" | grep -q "user alice runs 1 of at most 1" || fail "alice's own limit is: $(as alice divvy why "$more")"

# Root's command is for all users with jobs in the group.
divvy group limit nightly 5 | grep -q "for each of alice and bob" || fail "an administrator limits one user only"
wait_for "bob's fourth job" state_is "$fourth" running
end_jobs
echo "groups: alice has changed no limit but hers"
