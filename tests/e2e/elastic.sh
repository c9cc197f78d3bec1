#!/usr/bin/env bash
# An elastic job takes idle GPUs, and gives back GPUs that another job waits for, at its own checkpoints; also over a
# kill -9 of the daemon.
. "$(dirname "$0")/lib.sh"
up() { divvy up --quiet --emulate 4xH100-80GB; }
up

# A training loop: each round is a step on the GPUs that it may use. A signal ends the step early.
cat >train.sh <<'SH'
trap : USR1
gpus=$(divvy checkpoint) || [ $? -eq 3 ] || exit 1
echo "$gpus" >>rounds
until [ -e done ]; do
  [ ! -e hold ] || touch held
  [ -e hold ] || {
    code=0
    new=$(divvy checkpoint) || code=$?
    case $code in
      3) gpus=$new; cat "$DIVVY_GPUS_FILE" >file; echo "$gpus" >>rounds ;;
      0) ;;
      *) echo "$code" >>refused ;;
    esac
  }
  sleep 0.05
done
SH
# The name that a field of the API had in the last release works, and a note has the present one.
if command -v curl >/dev/null; then
  answer=$(curl -sS --unix-socket "$DIVVY_HOME/divvy.sock" http://divvy/v1/jobs \
    -d '{"spec": {"command": ["true"], "directory": "/", "is_held": true, "request": {"gpus": 1, "gpus_most": 2}}}')
  [[ $answer == *'spec.request.gpus_most is now called max_gpus; the old name works in this release only'* ]] ||
    fail "the answer is: $answer"
  divvy show 1 | grep -q 'requests *1\.\.2 GPUs' || fail "the job requests: $(divvy show 1)"
  divvy cancel 1 >/dev/null
fi
last_round_is() { [ "$(tail -n 1 rounds 2>/dev/null)" = "$1" ]; }
first=$(divvy submit --quiet --gpus 2 -- sh -c 'while [ ! -e go ]; do sleep 0.02; done')
wait_for "the first job" state_is "$first" running
job=$(divvy submit --quiet --gpus 1..4 -- sh train.sh)
wait_for "its first round" last_round_is 2,3

touch go
wait_for "all four" last_round_is 0,1,2,3
expect 0,1,2,3 "$(cat file)" "its file"

# The job does not reach a checkpoint for a while. It keeps its GPUs, and the waiting job is told why.
touch hold
wait_for "the end of its last checkpoint" test -e held
other=$(divvy submit --quiet --gpus 3 -- sh -c 'while [ ! -e go2 ]; do sleep 0.02; done')
asked() { divvy why "$other" | grep -q "job $job was asked .* ago to give back 3 GPUs"; }
wait_for "the question" asked
state_is "$other" queued || fail "it has started on GPUs that are another's"
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up
wait_for "the question after a restart" asked
expect 1 "$(find "$DIVVY_HOME" -name "$job.gpus" -exec cat {} + | tr , "\n" | wc -l)" "its file after a restart"
rm hold
wait_for "the taker" state_is "$other" running
wait_for "its round on one GPU" last_round_is 3

touch go2
wait_for "all four again" last_round_is 0,1,2,3
[ ! -e refused ] || fail "a checkpoint was refused: $(cat refused)"
touch done
wait_for "its end" state_is "$job" succeeded
wait_for "the removal of its file" sh -c "! find '$DIVVY_HOME' -name $job.gpus | grep -q ."
