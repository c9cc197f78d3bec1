#!/usr/bin/env bash
# The store is lost while bob's jobs run: a job with whole GPUs, one with a GPU fraction, and one with a MIG instance.
# alice tries to take them over, to end them, to get their GPUs, and to have her own run adopted as another user's job.
. "$(dirname "$0")/lib.sh"
printf '[gpus]\nmig = "auto"\n' >/etc/divvy/divvy.toml
divvy up --quiet --emulate 4xH100-80GB
script_of bob job <<'EOS'
#!/bin/sh
# CODE: runs until the file CODE.go exists.
while [ ! -e "$HOME/$1.go" ]; do sleep 0.05; done
exit "$1"
EOS
whole=$(as bob divvy submit --quiet --gpus 1 --name merger -- ./job 3)
part=$(as bob divvy submit --quiet --gpus 0.5 -- ./job 4)
slice=$(as bob divvy submit --quiet --slice 1g.10gb -- ./job 5)
for job in $whole $part $slice; do wait_for "job $job" state_is "$job" running; done
divvy down >/dev/null
aside=$(mktemp -d /var/lib/divvy/aside.XXXXXX)
mv /var/lib/divvy/divvy.db* "$aside"
printf '[privacy]\njobs = "own"\n' >>/etc/divvy/divvy.toml
divvy up --quiet --emulate 4xH100-80GB || fail "no start with an empty store"
found() { divvy adopt --csv --no-header -o id,state | tr '\n' ' '; }
expect "$whole,running $part,running $slice,running " "$(found)" "runs that were found"

# alice's attempts to see, adopt and end bob's runs.
! as alice divvy adopt | grep -q merger || fail "alice reads the name of bob's run"
for job in $whole $part $slice; do
  for how in "" --end; do
    as alice divvy adopt $how "$job" >answer 2>&1 && fail "alice may adopt $how bob's job $job"
    grep -q "belongs to bob" answer || fail "the refusal says: $(cat answer)"
  done
done
as alice divvy adopt --all >/dev/null 2>&1 && fail "alice may adopt all of bob's jobs"
as alice divvy cancel "$whole" >/dev/null 2>&1 && fail "alice may cancel a run that the store does not know"

# The GPUs of bob's runs. Three of four are in use, so one job of alice's starts.
mine=$(as alice divvy submit --quiet --gpus 1 -- sleep 1000)
wait_for "alice's job" state_is "$mine" running
for request in "--gpus 1" "--gpus 0.1" "--slice 1g.10gb"; do
  # shellcheck disable=SC2086
  job=$(as alice divvy submit --quiet $request -- true)
  wait_for "a reason" sh -c "divvy why $job | grep -q ."
  state_is "$job" queued || fail "alice's job with $request is $(field "$job" state): bob's run has that GPU"
done

# A run record that alice makes herself.
as alice sh -c "echo job=99 > /var/lib/divvy-launcher/runs/99" 2>/dev/null && fail "alice writes a run record"
as alice mv /var/lib/divvy-launcher/runs "/var/lib/home/alice/runs" 2>/dev/null && fail "alice moves the run records"
expect "$whole,running $part,running $slice,running " "$(found)" "runs that were found, afterwards"

# bob gets his jobs back, with the same GPUs and their own exit codes.
before=$(first_process "$part")
as bob divvy adopt "$whole" "$part" "$slice" >answer 2>&1 || fail "bob may not adopt his jobs: $(cat answer)"
for job in $whole $part $slice; do state_is "$job" running || fail "$job is $(field "$job" state)"; done
expect "$before" "$(first_process "$part")" "the process of the adopted job"
for code in 3 4 5; do as bob touch "$code.go"; done
for pair in "$whole 3" "$part 4" "$slice 5"; do
  set -- $pair
  expect "$2" "$(as bob divvy wait "$1" >/dev/null 2>&1; echo $?)" "exit code of job $1"
done
divvy cancel "$mine" --grace 0 >/dev/null
wait_for "alice's jobs" queue_is_empty
