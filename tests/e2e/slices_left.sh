#!/usr/bin/env bash
# Failures while a MIG instance is being created or removed: the daemon and the keeper are killed, the driver does not
# answer for a while, the GPU is lost, or nothing can be written to disk. No instance is left behind, and waiting jobs
# report the reason.
. "$(dirname "$0")/slices_lib.sh"
. "$(dirname "$0")/lib.sh"
command -v divvy-burn >/dev/null || fail "divvy-burn lies beside divvy"
up() { divvy up --quiet --emulate 2xH100-80GB; }
printf '[gpus]\nmig = "auto"\n' >"$DIVVY_HOME/divvy.toml"
up
share=$runs/share
# While this lock is held, the emulated driver waits before it changes anything.
exec 9<>"$DIVVY_HOME/emulate/world"
driver_answers() { flock -u 9; }
driver_hangs() { flock 9; }
keeper_pid() { pgrep -f "divvy keeper --directory $share" | head -n 1; }
is_gone() { ! grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status"; }
kill_both() {
  local keeper daemon
  keeper=$(keeper_pid)
  daemon=$(daemon_pid)
  kill -9 "$keeper" "$daemon"
  wait_for "their end" is_gone "$keeper"
  wait_for "their end" is_gone "$daemon"
}
is_noted() { grep -qs "$1" "$share/slices"; }
is_clean() { [ ! -e "$share/slices" ] && slices_are "$1" 0 && mig_is "$1" off; }
burn() { divvy submit --quiet "$@" -- divvy-burn --gpu-seconds 600 --vram 1G; }
tells() { divvy why "$1" | grep -q "$2"; }
gpus_tell() { divvy gpus --json | grep -q "$1"; }

# Killed while the driver creates an instance: the next keeper creates it for the same job, and only once.
driver_hangs
a=$(burn --slice 1g.10gb)
wait_for "the mode to be noted" is_noted switched
wait_for "why it waits" tells "$a" "the driver is making its MIG instance"
kill_both
driver_answers
up
wait_for "a" state_is "$a" running
gpu=$(field "$a" gpus | tr -d '[]')
slices_are "$gpu" 1 || fail "instances of a: $(nvml "$gpu")"
expect 1 "$(grep -c '^slice' "$share/slices")" "what is noted of it"
divvy queue | grep -q "1g.10gb" || fail "the queue does not show its slice: $(divvy queue)"

# Killed while the driver removes an instance. A whole-GPU job that waits for that GPU reports that.
driver_hangs
divvy signal TERM "$a" >/dev/null
wait_for "a's end" state_is "$a" succeeded
whole=$(burn --gpus 2)
wait_for "why it waits" tells "$whole" "It waits there: GPU $gpu: the MIG instance of job $a is being destroyed"
kill_both
is_noted "^slice" || fail "its note is gone before it"
driver_answers
up
wait_for "the whole job" state_is "$whole" running
is_clean "$gpu" || fail "left behind: $(nvml "$gpu"), $(cat "$share/slices")"
divvy signal TERM "$whole" >/dev/null
wait_for "an empty queue" queue_is_empty

# At any moment: several instances are created, and both processes are killed as soon as there are a given number of
# instances; then as soon as one has been removed.
count_slices() { cat "$share/slices" 2>/dev/null | grep -c '^slice'; }
has_made() { [ "$(count_slices)" -ge "$1" ] && [ -n "$(keeper_pid)" ]; }
has_unmade_one() { [ "$(count_slices)" -le 2 ]; }
for round in 0 1 2 3; do
  rm -f go
  jobs=
  for _ in 1 2 3; do
    jobs="$jobs $(divvy submit --quiet --slice 1g.10gb -- sh -c 'until [ -e go ]; do sleep 0.02; done; exec divvy-burn --gpu-seconds 0.05 --vram 1G')"
  done
  wait_for "$round of them" has_made $round
  if [ $round = 3 ]; then
    touch go
    wait_for "the end of one" has_unmade_one
  fi
  kill_both
  touch go
  up
  wait_for "an empty queue" queue_is_empty
  for job in $jobs; do state_is "$job" succeeded || fail "job $job of round $round: $(divvy show "$job")"; done
  for gpu in 0 1; do wait_for "nothing left on GPU $gpu in round $round" is_clean "$gpu"; done
done

# A lost GPU keeps its instances until it is back. The GPU list and the log report that.
b=$(burn --slice 1g.10gb)
wait_for "b" state_is "$b" running
gpu=$(field "$b" gpus | tr -d '[]')
divvy emulate lose "$gpu"
divvy signal KILL "$b" >/dev/null || true  # The job may have failed already because of the lost GPU.
wait_for "b's end" sh -c "! divvy queue --json | grep -q '\"id\":$b,'"
wait_for "the GPU to tell" gpus_tell "the MIG instance of job $b cannot be destroyed: .*divvy tries again"
wait_for "the log to tell" grep -q "event=keeper_trouble gpu=$gpu what=\"the MIG instance of job $b" "$DIVVY_HOME/daemon.log"
divvy emulate restore "$gpu"
wait_for "nothing left there" is_clean "$gpu"
wait_for "the end of it in the log" grep -q "event=keeper_trouble_over gpu=$gpu" "$DIVVY_HOME/daemon.log"
! gpus_tell "cannot be destroyed" || fail "it is still told"

# An instance that cannot be recorded on disk is not created, and the job reports why.
mkdir "$share/slices~"
c=$(burn --slice 1g.10gb)
wait_for "c's end" state_is "$c" failed
divvy show "$c" | grep -q "$share/slices" || fail "c does not say what could not be written: $(divvy show "$c")"
rmdir "$share/slices~"
d=$(burn --slice 1g.10gb)
wait_for "d" state_is "$d" running
divvy signal TERM "$d" >/dev/null
wait_for "an empty queue" queue_is_empty
for gpu in 0 1; do wait_for "nothing left on GPU $gpu" is_clean "$gpu"; done
