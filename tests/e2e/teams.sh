#!/usr/bin/env bash
# Teams and reservations with a real daemon: who may submit for which team, caps, what survives a restart, and reserved
# GPUs.
. "$(dirname "$0")/lib.sh"
me=$(id -un)
mkdir -p "$DIVVY_HOME"
cat >"$DIVVY_HOME/divvy.toml" <<EOF
[teams.filed]
quota = 2
users = ["$me"]
[prices]
default = 2.0
EOF
divvy up --quiet --emulate 4xH100-80GB

# Each refusal has one line.
refused() {
  local wanted=$1
  shift
  "$@" >answer 2>&1 && fail "$* was not refused"
  grep -qF "$wanted" answer || fail "$*: wanted '$wanted', got '$(cat answer)'"
}
refused "team filed is set in divvy.toml" divvy teams set filed --quota 4
refused "there is a team filed already" divvy teams add filed
refused "below its quota" divvy teams add nlp --quota 4 --limit 2
refused "no team gone to be its parent" divvy teams add nlp --parent gone
divvy teams add vision --quota 2 --limit 3 --user "$me" --max-running 1 >/dev/null
refused "choose the team whose share this job uses" divvy submit -- true
refused "there is no team visoin" divvy submit --team visoin -- true
refused "team vision never runs more than 3 GPUs at once" divvy submit --team vision --gpus 4 -- true
divvy teams user "$me" --team vision >/dev/null

# The default team, and its cap of one job at a time.
first=$(divvy submit --quiet --gpus 1 --time 1h -- sleep 600)
expect vision "$(field "$first" team)" "the default team"
wait_for "the first job" state_is "$first" running
second=$(divvy submit --quiet --gpus 1 -- sleep 600)
state_is "$second" queued || fail "the cap of the team did not hold"
expect "vision 2 1" "$(divvy teams --no-header -o team,share,gpus | awk '$1 == "vision" { print $1, $2, $3 }')" "its share, and what it has of it, in GPUs"
divvy why "$second" | grep -q "team vision runs 1 of at most 1" || fail "why does not name the cap: $(divvy why "$second")"
divvy teams show vision | grep -q "1/1 running" || fail "$(divvy teams show vision)"

# All of it is known after a restart.
divvy down >/dev/null
divvy up --quiet --emulate 4xH100-80GB
state_is "$second" queued || fail "the restart forgot the cap"
divvy teams --json | grep -q '"name":"vision"' || fail "the restart forgot the team"
refused "jobs that wait or run" divvy teams rm vision
divvy teams set vision --max-running none >/dev/null
wait_for "the second job, without the cap" state_is "$second" running

# A user's cap on GPUs: jobs above it wait and report why; a job that needs more than the cap is refused.
refused "is not a whole number" divvy teams user "$me" --max-gpus 1.5
refused "for a team use --limit" divvy teams set vision --max-gpus 2
refused "whole number from 0 to 1000000" divvy teams user "$me" --max-gpus=-1
divvy teams user "$me" --max-gpus 2 >/dev/null
refused "user $me never holds more than 2 at once; --gpus 2 is the maximum" divvy submit --gpus 3 -- true
third=$(divvy submit --quiet --gpus 1 --time 1h --preemptible requeue -- sleep 600)
state_is "$third" queued || fail "the cap on GPUs did not hold"
divvy why "$third" | grep -q "user $me holds 2 GPUs of at most 2 GPUs; this needs 1 GPU more" ||
  fail "why does not name the cap: $(divvy why "$third")"
divvy why "$third" | grep -q "divvy teams user $me --max-gpus 3" || fail "why does not name the remedy: $(divvy why "$third")"
divvy teams users | grep -q "^$me .* 2/2 " || fail "$(divvy teams users)"
divvy teams show "$me" | grep -q "2 GPUs at once" || fail "$(divvy teams show "$me")"
divvy teams user "$me" --max-gpus 3 >/dev/null
wait_for "the third job, with a higher cap" state_is "$third" running
divvy teams user "$me" --max-gpus none >/dev/null
divvy cancel "$third" --grace 0 >/dev/null
wait_for "its end" state_is "$third" cancelled

# Reserved GPUs: a reservation is refused with the reason, kept, and given to those it is for.
refused "run jobs without a time limit" divvy reserve --gpus 4 --team filed --start now+2h --duration 1h
divvy cancel "$second" --grace 0 >/dev/null
wait_for "its end" state_is "$second" cancelled
divvy reserve --gpus 3 --team filed --duration 2h --name course >/dev/null || fail "there is room for three"
expect 3 "$(divvy gpus --csv --no-header -o STATE | grep -c reserved)" "GPUs that are reserved"
divvy reserve show course | grep -q 'held, GPUs [0-3,-]*$' || fail "its GPUs are not named: $(divvy reserve show course)"
divvy nodes | grep -q '3 reserved' || fail "$(divvy nodes)"
divvy status | grep -q 'GPUs  *0 of 4 free, 3 reserved' || fail "$(divvy status)"
refused "cannot run jobs as 'nosuchuser'" divvy reserve --gpus 1 --user nosuchuser --duration 1h
refused "there is a reservation" divvy reserve --gpus 1 --user "$me" --duration 1h --name course
other=$(divvy submit --quiet --gpus 1 --team vision --time 30m -- sleep 600)
state_is "$other" queued || fail "it runs on reserved GPUs"
divvy why "$other" | grep -qi "reserv" || fail "why does not name the reservation: $(divvy why "$other")"
theirs=$(divvy submit --quiet --gpus 2 --team filed --time 30m -- sleep 600)
wait_for "the team's own job on its reserved GPUs" state_is "$theirs" running
divvy down >/dev/null
divvy up --quiet --emulate 4xH100-80GB
divvy reserve list | grep -q "course.*team filed.*in force" || fail "$(divvy reserve list)"
state_is "$other" queued || fail "the restart forgot the reservation"
divvy reserve cancel course >/dev/null
wait_for "the other job, without the reservation" state_is "$other" running

# With quotas on, a team without a quota has no access, and a quota of 0 blocks it.
divvy teams add empty --user "$me" >/dev/null
divvy teams quotas on >/dev/null
refused "no quota, and while quotas are on, teams without a quota have no access" divvy submit --team empty -- true
divvy teams set empty --quota 0 >/dev/null
refused "team empty is blocked: its quota is 0" divvy submit --team empty -- true
divvy report predictions | grep -q "^all" || fail "$(divvy report predictions)"

# Past quotas of a team are shown as they were: a new quota changes only later values.
quotas() { divvy report shares --by team --since 10min --csv | awk -F, '$2 == "vision" && $5 != "" { print $5 }' | uniq | tr '\n' ' '; }
# In two steps, of which one is over: the present one may not be kept yet.
is_kept() { [ "$(divvy report shares --by team --since 10min --csv | grep -c ',vision,.*,2.000,')" -ge 2 ]; }
wait_for "a quota to be kept" is_kept
divvy teams set vision --quota 1 >/dev/null
# The step in which the quota changed has a value between the two.
sees_both() { [[ $(quotas) == [12].*" 1.000 " ]]; }
(wait_for "both quotas" sees_both) || fail "quotas: $(quotas)"
divvy report shares --by team --since 10min | grep -q '^TEAM.* SHARE ' || fail "$(divvy report shares --by team --since 10min)"
echo "teams: passed"
