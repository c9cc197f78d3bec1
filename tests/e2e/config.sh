#!/usr/bin/env bash
# Settings in divvy.toml take effect: the grace period of jobs without their own, the retention of logs, the log level.
. "$(dirname "$0")/lib.sh"
cat >divvy.toml <<'TOML'
[daemon]
log_level = "debug"
[jobs]
grace = "200ms"
TOML
divvy up --quiet --emulate 8xH100-80GB

# The jobs ignore SIGTERM. With the default of 30 s, or with their own grace period, they would still run.
deaf='trap "" TERM; echo ready; while :; do sleep 0.05; done'
ready() { divvy logs "$1" | grep -q ready; }
quick=$(divvy submit --quiet -- sh -c "$deaf")
slow=$(divvy submit --quiet --grace 1h -- sh -c "$deaf")
wait_for "the first job" ready "$quick"
wait_for "the second job" ready "$slow"
divvy cancel "$slow" >/dev/null
divvy cancel "$quick" >/dev/null
wait_for "the job with the configured grace" state_is "$quick" cancelled
state_is "$slow" stopping || fail "the job with a grace of its own is $(field "$slow" state)"
divvy cancel --grace 0 "$slow" >/dev/null
wait_for "the job with a grace of its own" state_is "$slow" cancelled

grep -q "job=$quick event=changed state=cancelled" daemon.log || fail "log_level debug does not log what happens to jobs"
grep -q "event=request" daemon.log && fail "log_level debug logs every request"

# Logs are removed together with old jobs, and only those that divvy keeps.
kept=$(divvy submit --quiet -- echo kept)
chosen=$(divvy submit --quiet --output "$DIVVY_HOME/logs/chosen.%j.log" -- echo chosen)
runs=$(divvy submit --quiet -- sh -c 'echo runs; sleep 600')
wait_for "the jobs" state_is "$kept" succeeded
wait_for "the jobs" state_is "$chosen" succeeded
wait_for "the log of the job that runs" grep -q runs "logs/$runs.log"
divvy down >/dev/null
[ -e "logs/$kept.log" ] || fail "there is no log to remove"
touch -d '2 days ago' "logs/$kept.log" "logs/chosen.$chosen.log" "logs/$runs.log"
printf '[daemon]\nlog_level = "off"\n[jobs]\nkeep_logs = "1ms"\n' >divvy.toml
: >daemon.log
divvy up --quiet --emulate 8xH100-80GB
is_gone() { ! [ -e "$1" ]; }
wait_for "the old log to go" is_gone "logs/$kept.log"
state_is "$kept" succeeded || fail "with its log, the job went as well"
[ -e "logs/$runs.log" ] || fail "the log of a running job was removed"
[ -e "logs/chosen.$chosen.log" ] || fail "a file that the user chose was removed"
divvy cancel "$runs" >/dev/null
divvy down >/dev/null
[ ! -s daemon.log ] || fail "log_level off logs $(head -n 1 daemon.log)"

# The log limit keeps the newest part of a log while the job writes. A reader that follows misses nothing; a later
# reader gets a notice.
printf '[gpus]\npoll = "100ms"\n[jobs]\nlog_limit = "1M"\n' >divvy.toml
divvy up --quiet --emulate 8xH100-80GB
big=$(divvy submit --quiet -- sh -c "seq -w 1 700000; until [ -e $PWD/more ]; do sleep 0.02; done; seq -w 700001 800000")
named=$(divvy submit --quiet --output "$DIVVY_HOME/named" -- seq -w 1 700000)
on_disk() { echo $(($(stat -c '%b * %B' "$1"))); }
is_cut() { [ "$(on_disk "logs/$big.log")" -lt 1300000 ]; }
has_all() { [ "$(stat -c %s "logs/$big.log")" -ge 4900000 ]; }
wait_for "the job's lines" has_all
echo >holes
if fallocate -p -o 0 -l 4096 holes 2>/dev/null; then
  wait_for "the log to be cut" is_cut
  divvy logs "$big" >late 2>said || fail "the log that was cut cannot be read"
  grep -q "of the log of job $big before this were dropped from its file" said || fail "what is missing is not said: $(cat said)"
  [ "$(stat -c %s late)" -ge 1048576 ] || fail "less is kept than log_limit says: $(stat -c %s late)"
  expect 700000 "$(tail -n 1 late)" "the newest line of what is kept"
  tail -n +2 late | sort -c || fail "what is kept is out of order"
  expect "699999 700000" "$(divvy logs -n 2 "$big" | tr '\n' ' ' | sed 's/ $//')" "the last lines"
  divvy logs -f -n 1 "$big" >followed 2>said &
  follower=$!
  wait_for "the follower" grep -qx 700000 followed
  touch more
  wait $follower || fail "the follower ended with $?: $(cat said)"
  [ -s said ] || cmp followed <(seq -w 700000 800000) || fail "a reader that kept up lost lines"
else
  wait_for "the word that nothing can be cut" grep -q log_not_limited daemon.log
  touch more
fi
divvy wait "$named" >/dev/null
cmp named <(seq -w 1 700000) || fail "a file that the user chose was cut"
divvy down >/dev/null

printf '[daemon]\nlog_level = "loud"\n' >divvy.toml
divvy up --quiet 2>refusal && fail "an unknown log level was accepted"
grep -q 'divvy.toml:2' refusal || fail "the refusal does not name the line"
echo "config: passed"
