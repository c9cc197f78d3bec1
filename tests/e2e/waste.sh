#!/usr/bin/env bash
# A job that leaves its GPUs unused is reported with a remedy: in the queue, in show, in its history and in the report.
. "$(dirname "$0")/lib.sh"
cat >divvy.toml <<'TOML'
[gpus]
mig = "auto"
[waste]
grace = "0s"
idle_after = "10s"
exempt_names = ["notebook*"]
[prices]
default = 3600.0
TOML
divvy up --quiet --emulate 5xH100-80GB
nap='while [ ! -e '$DIVVY_HOME'/go ]; do sleep 0.1; done'
idle=$(divvy submit --quiet --gpus 2 --name forgotten -- sh -c "$nap")
wait_for "the idle job" state_is "$idle" running
busy=$(divvy submit --quiet --gpus 1 --name busy -- sh -c "$nap")
left=$(divvy submit --quiet --gpus 1 --name notebook-1 -- sh -c "$nap")
# The use of a MIG instance is unknown, so the job is not reported as wasting it.
sliced=$(divvy submit --quiet --slice 1g.10gb --name sliced -- sh -c "$nap")
wait_for "all of them" running_are 4
divvy emulate utilisation "$(field "$busy" gpus | tr -d "[]")" 90
says() { # says PATTERN COMMAND...
  local pattern=$1
  shift
  "$@" | grep -qE -- "$pattern"
}
# The wait is half as long again as the maximum: ten seconds, and one check every ten seconds.
wait_for "the line below the queue" says '^1 job wastes 2 GPUs; divvy report waste$' divvy queue
says "^ *$idle +forgotten .* running .* 2 *$" divvy queue || fail "its row has no mark: $(divvy queue)"
expect 2 "$(divvy queue --csv -o waste --name forgotten | tail -n 1)" "what a program reads of it"
says '"wasted_gpus":2,' divvy queue "$idle" --json || fail "JSON: $(divvy queue "$idle" --json)"
says '"wasted_gpus":0,' divvy queue "$busy" --json || fail "JSON of the busy one: $(divvy queue "$busy" --json)"
says "^ *$idle +forgotten .* running W " divvy top --once || fail "top has no mark: $(divvy top --once)"
says " W " divvy top --once --user nobody && fail "marked is: $(divvy top --once)"
says "^ *waste +does nothing with its 2 GPUs: 0% for [0-9]+ s; divvy cancel $idle \(lost so far: [0-9.]+ GPU-hours at a cost of [0-9.]+\)" divvy show "$idle" ||
  fail "show says: $(divvy show "$idle")"
says "wastes 2 GPUs: it does nothing with its 2 GPUs" divvy show "$idle" || fail "its history says nothing: $(divvy show "$idle")"
says "waste" divvy show "$busy" && fail "the busy job is said to waste GPUs: $(divvy show "$busy")"
says "waste" divvy show "$left" && fail "the exempt job is said to waste GPUs: $(divvy show "$left")"
says "waste" divvy show "$sliced" && fail "a job with a MIG instance is said to waste it: $(divvy show "$sliced")"
says "event=waste" cat daemon.log || fail "the log says nothing"
report=$(divvy report waste --by name)
grep -qE "^forgotten +1 " <<<"$report" || fail "the report has no settings of it: $report"
grep -qE "^  does nothing with its 2 GPUs.*divvy cancel $idle" <<<"$report" || fail "the report has no remedy: $report"
[ "$(divvy report waste --by name --json | grep -o '"group":"[^"]*"' | head -n 1)" = '"group":"forgotten"' ] ||
  fail "who lost most is not first: $(divvy report waste --by name --json)"
divvy report waste --html | grep -q "GPU-hours lost by user on " || fail "no page, or without its machine"
divvy report waste --html | grep -q 'class="m".*/></svg> not used' || fail "nothing says what the colours are"
code=0; divvy report waste --html --csv >two 2>&1 || code=$?
expect "2 divvy: --csv and --html cannot be combined; give only one format" "$code $(cat two)" "two formats"
refuses() { # refuses WORDS... -- TEXT
  local words=()
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  divvy report "${words[@]}" >refused 2>&1 && fail "report ${words[*]} was not refused"
  grep -qF -- "$2" refused || fail "report ${words[*]} says: $(cat refused)"
}
refuses waste --by colour -- "'by' is user, team, name, model, pool, node, hour or job in this report, not 'colour'"
refuses shares --by hour -- "'by' is user, team, name, model, pool or node in this report"
refuses fairness --by node -- "'by' is user, team, name, model, pool or hour in this report"
refuses predictions --by job -- "'by' is user, team, name, model, pool or hour in this report"
refuses speeds --by user -- "so --by, --since, --until and --html do not apply"
says '^ *JOB +NAME +USER +STATE +GPU-HOURS +OF FAILED' divvy report usage --by job || fail "usage by job: $(divvy report usage --by job)"
# By hour, and by job: the job that left most unused is first.
says "^20[0-9-]+ [0-9]{2}:[0-9]{2} +[1-9] " divvy report waste --by hour || fail "by hour: $(divvy report waste --by hour)"
says "^20[0-9-]+ [0-9]{2}:[0-9]{2} +[1-9] " divvy report efficiency --by hour || fail "by hour: $(divvy report efficiency --by hour)"
says "^20[0-9-]+ [0-9]{2}:[0-9]{2} +[1-9] " divvy report fairness --by hour || fail "by hour: $(divvy report fairness --by hour)"
for by in name model pool; do divvy report fairness --by $by --csv | sed -n 2p | grep -qE "^[^,]+,[1-9]," || fail "fairness by $by: $(divvy report fairness --by $by)"; done
expect "$idle,forgotten,$(id -un),running" "$(divvy report waste --by job --csv | sed -n 2p | cut -d, -f1-4)" "the worst job"
says "^$idle +forgotten" divvy report efficiency --by job || fail "by job: $(divvy report efficiency --by job)"
divvy report waste --by job --html | grep -q ">$idle forgotten<" || fail "the page by job has no bar of it"
wait_for "the busy job's use" says '^busy +1 +[0-9.]+ +([5-8][0-9]|90)%' divvy report efficiency --by name

# Shares over time: a table with a curve, a page with a chart, and all steps as CSV. A report by node shows its name.
own=$(divvy nodes --json | grep -o '"name":"[^"]*"' | head -n 1 | cut -d'"' -f4)
says "^$own +4 " divvy report usage --by node || fail "by machine: $(divvy report usage --by node)"
says "^$own +[0-9.]+ " divvy report waste --by node || fail "by machine: $(divvy report waste --by node)"
since=5min
export LC_ALL=C.UTF-8
says '^forgotten +[0-9.]+ +[0-9.]+ +2\.00 .*█' divvy report shares --by name --since $since || fail "shares: $(divvy report shares --by name --since $since)"
divvy report shares --by name --since $since --csv >shares.csv
expect "time,name,gpus" "$(head -n 1 shares.csv)" "the titles of the shares"
awk -F, '$2 == "forgotten" && $3 == 2 { found = 1 } END { exit !found }' shares.csv || fail "no step in which both were held: $(cat shares.csv)"
divvy report shares --html >shares.html
grep -q '<svg.*GPUs held over time' shares.html || fail "no drawing: $(head -c 400 shares.html)"
grep -q "\.line\.s0{" shares.html || fail "the drawing has no colours"
says '"step_s":' divvy report shares --json || fail "no JSON: $(divvy report shares --json)"

# Ended jobs are in the report after a restart of the daemon.
touch go
wait_for "their ends" queue_is_empty
quick=$(divvy submit --quiet --gpus 1 --name quick -- sleep 2)
wait_for "its end" state_is "$quick" succeeded
divvy down
divvy up --quiet --emulate 5xH100-80GB
# The waste of an ended job is shown with a request that would have fit. A job that used its GPU gets no such advice.
says "^ *waste +lost [0-9.]+ of its [0-9.]+ GPU-hours \(100%\) at a cost of [0-9.]+$" divvy show "$idle" || fail "show of an ended job says: $(divvy show "$idle")"
says "^ *waste +did nothing with its 2 GPUs: 0% in all samples of [0-9]+ s; submit it with --gpus 0 if it needs no GPU$" divvy show "$idle" ||
  fail "show of an ended job says: $(divvy show "$idle")"
says "waste" divvy show "$quick" && fail "what a job of a moment lost is said: $(divvy show "$quick")"
says "^$quick " divvy report waste --by job && fail "a job of a moment is among those that lost most: $(divvy report waste --by job)"
says "^$quick,quick," divvy report waste --by job --csv || fail "the job of a moment does not count: $(divvy report waste --by job --csv)"
says "waste +(did|hardly)" divvy show "$busy" && fail "the busy job should have asked for less: $(divvy show "$busy")"
says "waste +did" divvy show "$left" && fail "the exempt job is told what to do: $(divvy show "$left")"
expect "$idle,forgotten,$(id -un),succeeded" "$(divvy report waste --by job --csv | sed -n 2p | cut -d, -f1-4)" "the worst job, ended"
# Predictions for ended jobs: for all, by kind of request, and for a period.
says "^all +5 " divvy report predictions || fail "predictions: $(divvy report predictions)"
says "^busy +1 " divvy report predictions --by name --since 1h || fail "predictions by name: $(divvy report predictions --by name --since 1h)"
says "^20[0-9-]+ [0-9]{2}:[0-9]{2} +[1-5] " divvy report predictions --by hour || fail "predictions by hour: $(divvy report predictions --by hour)"
divvy report predictions --since 1h --html | grep -q "Predictions of run times by user" || fail "no page of predictions"
expect "name,jobs" "$(divvy report predictions --by name --csv | head -n 1 | cut -d, -f1-2)" "the titles of predictions"
expect "all,true" "$(divvy report predictions --by name --csv | sed -n 2p | cut -d, -f1,7)" "the row of all"
if divvy report predictions --by name --csv | grep -q ',-'; then fail "what is not known is no number: $(divvy report predictions --by name --csv)"; fi
says "^Nothing ran" divvy report predictions --since 3d --until 2d || fail "before there was anything: $(divvy report predictions --since 3d --until 2d)"
says "^forgotten +1 +[0-9.]+ +[0-9.]+ +100%" divvy report waste --by name || fail "what ended was forgotten: $(divvy report waste --by name)"
says "No running job wastes GPUs now" divvy report waste || fail "an ended job still wastes: $(divvy report waste)"

# A job that used one of its two GPUs and ended while no daemon ran: the recommended request is known afterwards.
half=$(divvy submit --quiet --gpus 2 --name half -- sh -c 'while [ ! -e '$DIVVY_HOME'/half ]; do sleep 0.1; done; touch '$DIVVY_HOME'/over')
wait_for "the last job" state_is "$half" running
divvy emulate utilisation "$(field "$half" gpus | tr -d "[]" | cut -d, -f1)" 90
wait_for "its finding" says "uses 1 of its 2 GPUs; .*submit it with --gpus 1" divvy show "$half"
says "^$half +half .* some_idle +submit it with --gpus 1$" divvy report waste --by job || fail "the report by job: $(divvy report waste --by job)"
divvy down
touch half
wait_for "its end" test -e over
divvy up --quiet --emulate 5xH100-80GB
wait_for "its end to be known" state_is "$half" succeeded
says "used 1 of its 2 GPUs; the others did nothing; submit it with --gpus 1$" divvy show "$half" || fail "show of it says: $(divvy show "$half")"
wait_for "it in the report" says "^$half +half .* some_idle +submit it with --gpus 1$" divvy report waste --by job
divvy report waste --by job --csv | head -n 1 | grep -q ",found,what to do$" || fail "titles: $(divvy report waste --by job --csv | head -n 1)"
