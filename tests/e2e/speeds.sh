#!/usr/bin/env bash
# On a server with two GPU models, jobs report their progress: their ends are predicted, and similar jobs get the faster
# model; also over a kill -9.
. "$(dirname "$0")/lib.sh"
up() { divvy up --quiet --emulate 2xA100-80GB,2xH100-80GB; }
up

# Runs until it is told to end, and reports progress twice, when it is told to. So all jobs take the same time between
# the reports. Different numbers alone do not make it a different kind of job.
cat >train.sh <<'SH'
name=$1 part=$2
until [ -e "first-$name" ]; do sleep 0.05; done
divvy progress 0.1 || echo refused >>errors
until [ -e "second-$name" ]; do sleep 0.05; done
divvy progress "$part/1000" || echo refused >>errors
until [ -e "end-$name" ]; do sleep 0.05; done
SH
train() { divvy submit --quiet --name train --gpus 1 "${@:3}" -- sh train.sh "$1" "$2"; }
said() { divvy show "$1" --json | grep -q "\"progress\":{\"fraction\":$2[,}]"; }

# Two jobs on each model, then one more on each. In the same time, one kind progresses by 0.4 and the other by 0.2.
fast_1=$(train 11 500 --gpu-type h100) fast_2=$(train 12 500 --gpu-type h100)
slow_1=$(train 21 300 --gpu-type a100) slow_2=$(train 22 300 --gpu-type a100)
waits=$(divvy submit --quiet --gpus 4 -- true)
for job in "$fast_1" "$fast_2" "$slow_1" "$slow_2"; do wait_for "the start of $job" state_is "$job" running; done
for name in 11 12 21 22; do touch "first-$name"; done
for job in "$fast_1" "$fast_2" "$slow_1" "$slow_2"; do wait_for "the first report of $job" said "$job" 0.1; done
# One report is not enough to determine a speed.
expect null "$(field "$fast_1" expected_end)" "the end to expect after one report"
ten_seconds_later=$(($(date +%s) + 11))
is_later() { [ "$(date +%s)" -ge "$ten_seconds_later" ]; }
wait_for "ten seconds" is_later
for name in 11 12 21 22; do touch "second-$name"; done
for job in "$fast_1" "$fast_2"; do wait_for "the second report of $job" said "$job" 0.5; done
for job in "$slow_1" "$slow_2"; do wait_for "the second report of $job" said "$job" 0.3; done
[ "$(field "$fast_1" expected_end)" != null ] || fail "two reports, and no end is expected"
divvy show "$fast_1" | grep -q '^progress *step 500 of 1000 (50%), reported ' || fail "show does not say how far it is"
divvy queue | grep -q 'step 500 of 1000 (50%), about .* to go' || fail "the queue does not say how far it is"
divvy why "$waits" | grep -qE '^will start *(about|within)' || fail "who waits is not told when: $(divvy why "$waits")"

# Invalid progress values are rejected without side effects.
for bad in nan -0.1 1.5 5/4 1/0 much; do
  ! divvy progress "$bad" "$fast_1" 2>message || fail "took '$bad'"
  expect 1 "$(wc -l <message)" "lines about '$bad'"
done
! divvy progress 0.2 "$fast_1" 2>message || fail "took a step back"
grep -q "it has reported 50% already" message || fail "says: $(cat message)"
said "$fast_1" 0.5 || fail "a refused report changed something"

# Progress survives a kill of the daemon; at most ten seconds are lost.
pid=$(daemon_pid)
expect_kept() { said "$fast_1" 0.5 && said "$slow_1" 0.3; }
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up
expect_kept || fail "what was said is lost"
divvy cancel "$waits" >/dev/null
for name in 11 12 21 22; do touch "end-$name"; done
for job in "$fast_1" "$fast_2" "$slow_1" "$slow_2"; do wait_for "the end of $job" state_is "$job" succeeded; done
divvy report speeds | grep -q 'A100.* - ' || fail "two runs on each are enough: $(divvy report speeds)"
fast_3=$(train 13 500 --gpu-type h100) slow_3=$(train 23 300 --gpu-type a100)
wait_for "its start" state_is "$fast_3" running
wait_for "its start" state_is "$slow_3" running
touch first-13 first-23
wait_for "its first report" said "$fast_3" 0.1
wait_for "its first report" said "$slow_3" 0.1
ten_seconds_later=$(($(date +%s) + 11))
wait_for "ten seconds" is_later
touch second-13 second-23 end-13 end-23
wait_for "its end" state_is "$fast_3" succeeded
wait_for "its end" state_is "$slow_3" succeeded
[ ! -e errors ] || fail "a report was refused"

# The speeds are now known: a job that accepts any GPU gets a fast one, although the slow ones have lower numbers.
divvy report speeds | grep -E 'A100.* 0\.[45][0-9]? .*3 .*progress' >/dev/null || fail "learned: $(divvy report speeds)"
next=$(train 31 500)
wait_for "the next one" state_is "$next" running
case $(divvy show "$next" --json | grep -o '"gpus":\[[0-9]*\]' | head -n 1) in
  '"gpus":[2]' | '"gpus":[3]') ;;
  *) fail "it got a slow GPU: $(divvy show "$next")" ;;
esac
divvy show "$next" | grep -q '^speeds .*A100.* at 0\.[45][0-9]* of .*H100.*, learned from 6 runs by their progress' || fail "says: $(divvy show "$next")"
# Speeds given by the user take precedence.
by_hand=$(train 32 500 --gpu-type 'a100*1|h100*0.3')
wait_for "the one by hand" state_is "$by_hand" running
divvy show "$by_hand" | grep -q '^speeds .*H100.* at 0\.3 of .*A100.*, as --gpu-type says' || fail "says: $(divvy show "$by_hand")"
touch first-31 second-31 end-31 first-32 second-32 end-32
wait_for "the end of all" queue_is_empty
