#!/usr/bin/env bash
# Users and jobs across nodes: commands inside a job on an agent's node that reach the controller without a token;
# foreground jobs on another node, with input, output, errors, exit code, Ctrl-C, and a terminal that is left and joined
# again.
. "$(dirname "$0")/lib.sh"

port=
printf '[controller]\nlost_after = "3s"\n' >divvy.toml
up_listening
with_machines
far="--gpus 1 --gpu-type a100"
submit() { divvy submit --quiet "$@"; }
ended() { divvy wait "$1" >/dev/null 2>&1 || true; }
is_over() { ! kill -0 "$1" 2>/dev/null; }

divvy token create --node >token 2>/dev/null
on n1 agent --join-file "$DIVVY_HOME/token" --name n1 --emulate 4xA100-40GB --detach --quiet || fail "n1 did not join"

# A job reports about itself and calls the controller as its user.
other=$(submit --gpu-type h100 --gpus 2 --name other -- sh -c "until [ -e $machines/go ]; do sleep 0.02; done")
id=$(submit $far --name speaks -- sh -c 'set -e
  divvy progress 0.25; divvy queue; divvy show "$DIVVY_JOB_ID" --json >/dev/null; divvy why "$DIVVY_JOB_ID" >/dev/null
  next=$(divvy submit --quiet --gpus 4 --gpu-type a100 --name next -- sh -c "pwd; echo \$MARK")
  divvy cancel '"$other"'; echo "next $next"')
MARK=carried ended "$id"
divvy logs "$id" >said
expect succeeded "$(field "$id" state)" "what speaks with the controller: $(cat said)"
grep -q speaks said || fail "divvy queue inside the job said: $(cat said)"
divvy show "$id" --json | grep -q '"fraction":0.25' || fail "its progress is not known: $(divvy show "$id" --json)"
ended "$other"
expect cancelled "$(field "$other" state)" "what was cancelled from inside"
next=$(sed -n 's/^next //p' said)
ended "$next"
expect "$DIVVY_HOME" "$(divvy logs "$next" | head -n 1)" "the directory of what was submitted inside"

# The job cannot do what only administrators may, nor create a token, nor call after the last job has ended.
id=$(submit $far -- sh -c 'divvy node cordon n1; divvy token create; divvy down; env | grep ^DIVVY_CONTROLLER=')
ended "$id"
divvy logs "$id" >said
expect 3 "$(grep -c '^divvy: ' said)" "refusals: $(cat said)"
node_is n1 ready || node_is n1 idle || [ "$(node_state n1)" != cordoned ] || fail "a job cordoned its machine"
door=$(sed -n 's/^DIVVY_CONTROLLER=//p' said)
refused=$(DIVVY_CONTROLLER=$door divvy queue 2>&1) && fail "one without a job there was answered"
echo "$refused" | grep -q 'you have no job here' || fail "the door says: $refused"

# A foreground job there: bytes in both directions, separate errors and the exit code.
head -c 3000000 /dev/urandom >in
divvy run $far -- sh -c 'cat; echo "on $DIVVY_NODE" >&2; exit 7' <in >out 2>err && code=0 || code=$?
expect 7 "$code" "the exit code: $(cat err)"
cmp in out || fail "what went through it is another"
expect "on n1" "$(cat err)" "its errors"
expect "" "$(divvy run $far -- true </dev/null)" "nothing"
expect opened "$(divvy run $far -- sh -c 'echo opened >/dev/stdout' </dev/null)" "/dev/stdout"
# The job runs here if it fits here. Input is not read unless the job asks for it.
expect left "$( (divvy run --gpus 1 --gpu-type h100 -- true; cat) <<<left)" "the input of what runs here"

# Metrics that the job prints are parsed as they pass, and the bytes stay unchanged.
divvy run $far --name tells -- sh -c 'echo "{\"step\": 3, \"loss\": 0.25}"; until [ -e '$machines'/told ]; do sleep 0.02; done; echo plain' >told.out </dev/null &
runner=$!
wait_for "its start" grep -q loss told.out
id=$(divvy queue --csv | grep ',tells,' | cut -d, -f1)
tells() { divvy metrics "$id" -m own.loss --csv | grep -q ',own.loss,,0.25,0.25,0.25,'; }
wait_for "its loss" tells
touch "$machines/told"
wait $runner || fail "what tells numbers ended with $?"
expect '{"step": 3, "loss": 0.25} plain' "$(xargs -d '\n' <told.out)" "what it printed"
tells || fail "its loss after its end: $(divvy metrics "$id" -m own.loss --csv)"

# Output stops when its reader has closed the stream.
expect y "$(divvy run $far -- yes 2>/dev/null </dev/null | head -n 1)" "the first line of many"
wait_for "the end of what nobody reads" queue_is_empty

# A stalled reader blocks no other job and loses nothing.
mkfifo stalled
divvy run $far -- seq 1 300000 >stalled </dev/null &
writer=$!
exec 3<stalled
wait_for "its start" running_are 1
expect through "$(divvy run $far -- echo through </dev/null)" "another beside one that stalls"
expect "$(seq 1 300000 | cksum)" "$(cksum <&3)" "all of what stalled"
exec 3<&-
wait $writer || fail "what stalled ended with $?"

# A broken connection loses nothing: the agent is stopped until the controller gives up the connection. Both ends write
# meanwhile.
mkfifo said_there
divvy run $far -- sh -c "echo one; until [ -e $machines/two ]; do sleep 0.02; done; echo two; touch $machines/spoke; cat" >cut <said_there &
runner=$!
exec 5>said_there
wait_for "its first line" grep -q one cut
kill -STOP "$(agent_pid n1)"
wait_for "the cut" sh -c 'divvy nodes --csv | grep -E "^n1,(away|lost)"'
touch "$machines/two"
wait_for "what is said meanwhile" test -e "$machines/spoke"
echo three >&5
exec 5>&-
kill -CONT "$(agent_pid n1)"
wait $runner || fail "it ended with $?"
expect "one two three" "$(tr '\n' ' ' <cut | sed 's/ $//')" "what it said"

# Ctrl-C is sent to the job.
divvy run $far -- sh -c 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.02; done' >trapped </dev/null &
runner=$!
wait_for "its trap" grep -q ready trapped
kill -INT $runner
wait $runner && code=0 || code=$?
expect 9 "$code" "the exit code of what caught Ctrl-C"
grep -q caught trapped || fail "it did not hear Ctrl-C: $(cat trapped)"

# The controller is killed while a job waits for GPUs there. Its caller reconnects with all its streams.
busy=$(submit --gpus 4 --gpu-type a100 -- sh -c "until [ -e $machines/free ]; do sleep 0.02; done")
wait_for "its start" state_is "$busy" running
divvy run $far --name waits -- sh -c 'cat; echo "on $DIVVY_NODE"' >kept 2>told <<<typed &
runner=$!
wait_for "what waits" grep -q 'is queued' told
kill -9 "$(daemon_pid)"
wait_for "the word that it is away" grep -q 'went away' told
up_listening "$port"
wait_for "n1" sh -c 'divvy nodes --csv | grep "^n1," | grep -qv away'
touch "$machines/free"
wait $runner || fail "it ended with $?: $(cat told)"
expect "typed on n1" "$(tr '\n' ' ' <kept | sed 's/ $//')" "what it said after the controller's restart"

# The controller is killed while a job runs with much output and input: no byte is lost or doubled in either direction.
head -c 6000000 /dev/urandom >much
mkfifo slow_in
divvy run $far --name runs_on -- sh -c 'tee "$1"; cat much; exit 5' sh "$machines/read" <slow_in >through 2>told &
runner=$!
{ head -c 2000000 much; until [ -e $machines/more ]; do sleep 0.02; done; tail -c 4000000 much; } >slow_in &
wait_for "what came back" sh -c '[ $(stat -c %s through) -ge 1000000 ]'
kill -9 "$(daemon_pid)"
touch "$machines/more"
up_listening "$port"
wait $runner && code=0 || code=$?
expect 5 "$code" "the exit code of what ran on: $(cat told)"
cmp much "$machines/read" || fail "its input is another"
cat much much | cmp - through || fail "its output is another"
grep -q 'went away' told || fail "its errors say: $(cat told)"

# The job ends while the controller is away. The rest of its output waits for its caller.
divvy run $far --name ends_alone -- sh -c "echo first; until [ -e $machines/alone ]; do sleep 0.02; done; seq 1 5000; exit 6" >alone 2>told </dev/null &
runner=$!
wait_for "its first line" grep -q first alone
kill -9 "$(daemon_pid)"
wait_for "the word that it is away" grep -q 'went away' told
touch "$machines/alone"
up_listening "$port"
wait $runner && code=0 || code=$?
expect 6 "$code" "the exit code of what ended alone: $(cat told)"
expect "$( (echo first; seq 1 5000) | cksum)" "$(cksum <alone)" "all of its output"

# The agent is killed while the job runs: the caller is told that the streams are lost. The job continues. Its later
# output is in its log, and the caller gets its exit code.
divvy run $far --name broken -- sh -c "echo begun; until [ -e $machines/broken ]; do sleep 0.02; done; seq 1 50000; echo over >&2; exit 11" >broken.out 2>broken.err </dev/null &
runner=$!
wait_for "its first line" grep -q begun broken.out
kill_agent n1
on n1 agent --detach --quiet || fail "n1 did not come again"
wait_for "the word that its streams are gone" grep -q 'the streams of job .* are lost' broken.err
grep -q 'its log (divvy logs -f ' broken.err || fail "its caller is told: $(cat broken.err)"
id=$(sed -n 's/.*divvy logs -f \([0-9]*\)).*/\1/p' broken.err)
touch "$machines/broken"
wait $runner && code=0 || code=$?
expect 11 "$code" "the exit code of what lost its pipes: $(cat broken.err)"
divvy logs -f "$id" >rest
# Two pipes: the order of the lines of one among those of the other is undefined.
expect 1 "$(grep -c over rest)" "its errors after its agent's end"
expect "$(seq 1 50000 | cksum)" "$(python3 -c 'import sys; sys.stdout.write(sys.stdin.read().replace("over\n", "", 1))' <rest | cksum)" \
  "what it printed after its agent's end"
divvy run $far --name plain -- true </dev/null
id=$(divvy queue --all --csv | grep ',plain,' | cut -d, -f1)
divvy logs "$id" 2>told && fail "there is a log of what ran on a terminal" || true
grep -q "ran on its caller's terminal" told || fail "divvy logs says: $(cat told)"

# A terminal there: its size and input, leaving and joining it.
if command -v script >/dev/null; then
  id=$(submit $far --pty -- sh -c 'while read -r line; do echo "got $line"; done; echo "ended"')
  wait_for "its start" state_is "$id" running
  mkfifo typed
  script -qefc "divvy attach $id" shown <typed >/dev/null &
  viewer=$!
  exec 4>typed
  wait_for "the viewer" grep -q 'attached to job' shown
  echo hello >&4
  wait_for "its answer" grep -q 'got hello' shown
  printf '\020\021' >&4
  wait $viewer || fail "leaving ended with $?"
  exec 4>&-
  expect running "$(field "$id" state)" "the job that was left"
  script -qefc "divvy attach $id" again <<<more >/dev/null || fail "joining it again ended with $?: $(cat again)"
  grep -q 'got hello' again || fail "what it had printed was not shown: $(cat again)"
  grep -q 'got more' again || fail "what was typed then was not heard: $(cat again)"
  grep -q ended again || fail "its last word is missing: $(cat again)"
  expect succeeded "$(field "$id" state)" "the job whose terminal ended"
  # The caller of a job leaves its terminal as a viewer does, there and here. The job continues, and `divvy wait` does
  # not join the terminal.
  for where in "$far" "--gpus 1 --gpu-type h100"; do
    rm -f typed own
    mkfifo typed
    script -qefc "divvy run $where --pty --name left -- sh -c 'echo ready; read -r line; echo \"got \$line\"'" own <typed >/dev/null &
    viewer=$!
    exec 4>typed
    wait_for "its start" grep -q '^ready' own
    printf '\020\021' >&4
    wait $viewer || fail "leaving one's own job ended with $?: $(cat own)"
    exec 4>&-
    id=$(sed -n 's/.*left job \([0-9]*\), which keeps running.*/\1/p' own)
    expect running "$(field "$id" state)" "the job whose caller left it: $(cat own)"
    divvy wait "$id" &
    waiter=$!
    script -qefc "divvy attach $id" again <<<more >/dev/null || fail "joining one's own job ended with $?: $(cat again)"
    grep -q 'got more' again || fail "what was typed to the job that was left: $(cat again)"
    wait $waiter || fail "divvy wait of a job that was left ended with $?"
  done
  # Ctrl-C while a job waits for GPUs cancels it, there and here. The key is not kept for the job.
  for where in "--gpu-type a100 --gpus 4" "--gpu-type h100 --gpus 2"; do
    busy=$(submit $where -- sleep 600)
    wait_for "its start" state_is "$busy" running
    rm -f typed own
    mkfifo typed
    script -qefc "divvy run $where --pty --name waiting -- cat" own <typed >/dev/null &
    viewer=$!
    exec 4>typed
    wait_for "its turn" grep -q 'Ctrl-C cancels' own
    printf '\003' >&4
    wait $viewer && code=0 || code=$?
    exec 4>&-
    expect 130 "$code" "the exit code of what was cancelled while it waited: $(cat own)"
    id=$(sed -n 's/^divvy: job \([0-9]*\) is queued.*/\1/p' own)
    expect cancelled "$(field "$id" state)" "what was cancelled while it waited: $(cat own)"
    # If the job is left to wait, its terminal is raw from its start on.
    rm -f typed own
    mkfifo typed
    script -qefc "divvy run $where --pty --name waited -- sh -c 'stty raw -echo; echo ready; head -c 1 | od -An -tx1'" own <typed >/dev/null &
    viewer=$!
    exec 4>typed
    wait_for "its turn" grep -q 'Ctrl-C cancels' own
    divvy cancel "$busy" >/dev/null
    wait_for "its start" grep -q '^ready' own
    printf '\003' >&4
    wait $viewer || fail "what waited ended with $?: $(cat own)"
    exec 4>&-
    grep -q '^ 03' own || fail "what waited did not get what was typed: $(cat own)"
  done
  script -qefc "stty rows 33 cols 77; divvy run $far --pty -- sh -c 'until [ \"\$(stty size)\" = \"33 77\" ]; do sleep 0.02; done; echo sized'" \
    sized </dev/null >/dev/null || fail "a terminal there ended with $?: $(cat sized)"
  grep -q sized sized || fail "its terminal has another size: $(cat sized)"
fi

# All nodes of a foreground job.
expect "n1" "$(divvy run $far --nodes 1 --nodelist n1 -- sh -c 'echo $DIVVY_NODE' </dev/null)" "its machine"

echo "remote_streams: passed"
