#!/usr/bin/env bash
# Sweeps on emulated GPUs: losers are stopped at their rung, paused trials are promoted, an optimiser chooses values,
# mistakes are reported, and kills of the daemon lose no trial. ROUNDS: kills; 3 unless DIVVY_LONG is set (20).
. "$(dirname "$0")/lib.sh"
rounds=${ROUNDS:-$([ -n "${DIVVY_LONG:-}" ] && echo 20 || echo 3)}
up() { divvy up --quiet --emulate 8xH100-80GB; }
up

# A training whose loss depends on q: it reports an epoch, waits until it is recorded, and trains on. It continues from
# the epoch that it reached before a pause.
cat >train.sh <<'SH'
q=$1 most=$2 id=$DIVVY_JOB_ID
epoch=$(cat "epoch-$id" 2>/dev/null || echo 0)
echo "start $id $epoch" >>starts
while [ "$epoch" -lt "$most" ]; do
  epoch=$((epoch + 1))
  sleep "${TICK:-0.05}"
  echo "$epoch" >"epoch-$id"
  loss=$(awk -v q="$q" -v e="$epoch" 'BEGIN { printf "%.6f", q + 1 / e }')
  until divvy metrics --add "epoch=$epoch" "loss=$loss" 2>errors-$id || ! grep -q 'divvy up' "errors-$id"; do sleep 0.1; done
done
SH
sweep_field() { divvy sweep show "$1" --json | python3 -c "import json,sys; print(json.load(sys.stdin)['$2'])"; }
sweep_is() { [ "$(sweep_field "$1" "$2")" = "$3" ]; }
has_ended() { sweep_is "$1" state ended; }

# ASHA: 24 trials. The best one trains to its end; the array succeeds although most trials were stopped.
cat >sweep.yaml <<'Y'
name: search
method: random
run_cap: 24
metric: {name: loss, goal: minimize}
parameters: {q: {min: 0.0, max: 10.5}}
early_terminate: {type: asha, min_iter: 1, max_iter: 9, eta: 3}
options: {gpus: 1}
Y
asha=$(divvy sweep run sweep.yaml --quiet --env TICK=0.05 -- sh train.sh '{q}' 9)
WAIT_S=120 wait_for "the end of sweep $asha" has_ended "$asha"
state_is "$asha" succeeded || fail "the array of the sweep: $(divvy show "$asha" | head -3)"
divvy sweep show "$asha" --json >shown.json
python3 - <<'P' || fail "wrong trials: $(cat shown.json)"
import json
view = json.load(open("shown.json"))
trials = view["list"]
assert len(trials) == 24 and view["trials"] == 24, len(trials)
assert view["stopped"] >= 8, view["stopped"]
assert view["stopped"] + view["ended"] == 24
best = min(trials, key=lambda trial: float(trial["parameters"]["q"]))
assert view["best_trial"] == best["trial"], (view["best_trial"], best)
assert best["state"] == "succeeded" and best["best_at"] == 9, best
for trial in trials:
    if trial["state"] == "stopped":
        assert "is not among the best 1/3 of" in trial["note"], trial
        assert trial["rungs"], trial
P
divvy sweep show "$asha" | grep -q "best: trial" || fail "show has no best trial"
expect 25 "$(divvy sweep show "$asha" --csv | wc -l)" "lines of the CSV"
divvy sweep list --csv | grep -q "^$asha,search," || fail "the list: $(divvy sweep list)"
loser=$(python3 -c "import json; print([t['id'] for t in json.load(open('shown.json'))['list'] if t['state'] == 'stopped'][0])")
divvy why "$loser" | grep -q "stopped by its sweep: loss" || fail "why says: $(divvy why "$loser")"

# Promotion: paused trials give their GPUs back, and the promoted ones continue where they were.
promoted=$(divvy sweep run --quiet --gpus 1 --draw q=uniform:0:10 --trials 9 --parallel 3 --metric loss \
  --asha-promotion 1:9:3 --env TICK=0.05 -- sh train.sh '{q}' 9)
WAIT_S=120 wait_for "the end of sweep $promoted" has_ended "$promoted"
divvy sweep show "$promoted" --json | grep -q 'was never promoted beyond rung' || fail "no trial was left behind"
[ "$(sort starts | uniq -c | awk '{ print $4 }' | sort -n | tail -1)" -ge 1 ] || fail "no trial continued at a later epoch"

# An optimiser chooses the values (divvy sweep ask and tell).
told=$(divvy sweep run --quiet --gpus 0.5 --method ask --draw q=uniform:0:10 --trials 3 --metric loss -- sh train.sh '{q}' 1)
divvy release "$told" 2>message && fail "a sweep that asks was released"
for q in 3 1 2; do
  divvy sweep ask "$told" >asked.json
  divvy sweep tell "$told" q=$q >number
done
! divvy sweep tell "$told" q=4 2>message || fail "a fourth trial was taken"
grep -q "has all of its 3 trials\|sweep $told has ended" message || fail "says: $(cat message)"
wait_for "the end of sweep $told" has_ended "$told"
expect 1 "$(sweep_field "$told" best_trial)" "the best trial of sweep $told"

# Mistakes: one clear sentence each.
refused() {
  local words=$1
  shift
  ! divvy sweep "$@" >message 2>&1 || fail "took: $*"
  expect 1 "$(wc -l <message)" "lines about: $*"
  grep -qF -- "$words" message || fail "$* says: $(cat message)"
}
refused "min 5 is greater than max 1; swap them" run --draw q=uniform:5:1 --trials 3 -- true
refused "unknown distribution 'beta'; known: categorical" run --draw q=beta:0:1 --trials 3 -- true
refused "is not a whole number from 1 to 100000" run --draw q=uniform:0:1 --trials 1000000 -- true
refused "the grid has 1000000 points" run --param a=1:1000 --param b=1:1000 -- true
refused "needs the metric that trials report" run --draw q=uniform:0:1 --trials 3 --asha 1:9 -- true
refused "is not a sweep; divvy sweep list shows them" show "$(divvy submit --quiet -- true)"
never=$(divvy sweep run --quiet --param q=1 --metric loss --asha 1:9 -- sh -c 'echo "{\"epoch\": 1, \"acc\": 1}"')
nan=$(divvy sweep run --quiet --param q=1 --metric loss --asha 1:9 -- sh -c 'echo "{\"epoch\": 1, \"loss\": NaN}"')
wait_for "the end of sweep $never" has_ended "$never"
wait_for "the end of sweep $nan" has_ended "$nan"
says() { divvy sweep show "$1" --json | grep -q "$2"; }
wait_for "the reason of $never" says "$never" "no trial has reported 'loss'"
wait_for "the numbers of $never" says "$never" "it ended without reporting 'loss'"
wait_for "the reason of $nan" says "$nan" "'loss' was NaN at epoch 1; it counts as the worst value"
# divvy why tells the same, for the sweep and for its trials.
explained() { divvy why "$1" --json | grep -qF -- "$2" || fail "why $1 says: $(divvy why "$1")"; }
explained "$never" "It is a sweep: no trial has reported 'loss', and 1 trial ended without it"
explained $((never + 1)) "It is trial 0 of sweep $never: it ended without reporting 'loss'; it reported "
explained "$nan" "It is a sweep: no trial has reported a number as 'loss', but 1 trial reported NaN"
explained $((nan + 1)) "It is trial 0 of sweep $nan: 'loss' was NaN at epoch 1; it counts as the worst value"
silent=$(divvy sweep run --quiet --param q=1 --metric loss --asha 1:9 -- sh -c 'echo "{\"epoch\": 1, \"acc\": 1}"; sleep 1000')
wait_for "the numbers of $silent" says "$silent" "it has not reported 'loss' yet, but "
explained "$silent" "It is a sweep: no trial has reported 'loss' yet, but "
explained $((silent + 1)) "It is trial 0 of sweep $silent: it has not reported 'loss' yet, but "
divvy sweep cancel "$silent" >/dev/null

# Kills of the daemon: no trial is lost, and every trial that was not stopped trains to its end.
killed=$(divvy sweep run --quiet --gpus 1 --draw q=uniform:0:10 --trials $((8 + rounds * 4)) --metric loss --asha 1:9:3 \
  --env TICK=0.1 -- sh train.sh '{q}' 9)
begun() { divvy sweep show "$killed" --json | python3 -c "import json,sys; print(len(json.load(sys.stdin)['list']))"; }
more_begun() { [ "$(begun)" -gt "$before" ] || has_ended "$killed"; }
for _ in $(seq "$rounds"); do
  before=$(begun)
  wait_for "another trial" more_begun
  kill -9 "$(daemon_pid)"
  up || fail "no restart"
done
WAIT_S=300 wait_for "the end of sweep $killed" has_ended "$killed"
state_is "$killed" succeeded || fail "the array of the killed sweep: $(divvy show "$killed" | head -3)"
divvy sweep show "$killed" --json >shown.json
python3 - "$((8 + rounds * 4))" <<'P' || fail "trials were lost: $(cat shown.json)"
import json, sys
view = json.load(open("shown.json"))
assert len(view["list"]) == int(sys.argv[1]) == view["stopped"] + view["ended"], view
for trial in view["list"]:
    assert trial["state"] in ("stopped", "succeeded"), trial
    assert trial["best"] is not None, trial
best = min(view["list"], key=lambda trial: float(trial["parameters"]["q"]))
assert view["best_trial"] == best["trial"] and best["best_at"] == 9, (view["best_trial"], best)
P
echo "sweeps: ASHA, promotion, ask and tell, mistakes; $rounds kills lost no trial"
