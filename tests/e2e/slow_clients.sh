#!/usr/bin/env bash
# Clients that are slower than divvy: they submit a job first and create the directory of its files later.
. "$(dirname "$0")/lib.sh"
with_machines
up_listening
divvy shims bin >/dev/null
PATH=$DIVVY_HOME/bin:$PATH
mkdir work && cd work
reason_says() { field "$1" reason | grep -qF -- "$2"; }
waits_for() { wait_for "job $1 to wait for $2" reason_says "$1" "waits up to 10 s for directory '$PWD/$2'"; }

# As submitit does: a Slurm array whose steps have their own files.
cat >submission.sh <<'S'
#!/bin/bash
#SBATCH --array=0-1
#SBATCH --error=logs/%A/%a_0.err
#SBATCH --gpus-per-node=1
#SBATCH --ntasks-per-node=2
#SBATCH --open-mode=append
#SBATCH --output=logs/%A/%a_0.out
#SBATCH --signal=USR2@90
#SBATCH --time=1
srun --unbuffered --output logs/%A/%a_%t.out --error logs/%A/%a_%t.err sh -c 'echo "rank $SLURM_PROCID"'
S
array=$(sbatch --parsable submission.sh)
waits_for "${array}_0" "logs/$array"
divvy queue | grep -q "waits up to 10 s for directory" || fail "queue says: $(divvy queue)"
divvy why "${array}_1" | grep -qF "waits up to 10 s for directory '$PWD/logs/$array' of its output file" || fail "why says: $(divvy why "${array}_1")"
mkdir -p "logs/$array"
wait_for "the array" queue_is_empty
for element in 0 1; do
  for rank in 0 1; do expect "rank $rank" "$(cat "logs/$array/${element}_$rank.out")" "output of task $rank"; done
done

# This directory is never created; the end of this test checks the message. Other jobs do not wait for it.
never=$(divvy submit --quiet --gpus 1 -o never/out -- true)
waits_for "$never" never
wait_for "another job" divvy run -- true
# The other files, with divvy's options.
other=$(divvy submit --quiet -o out --error later/err --input input/text -- sh -c 'cat; echo failed >&2')
waits_for "$other" input
mkdir made later && echo read >made/text && mv made input
wait_for "job $other" state_is "$other" succeeded
expect "read failed" "$(cat out later/err | xargs)" "what it read and wrote"

# A step waits on its own and reports that.
step=$(divvy submit --quiet -o step.log --gpus 1 -- sh -c 'srun -n 2 --output step/%t sh -c "echo \$SLURM_PROCID"')
wait_for "the step to say what it waits for" grep -q "srun: waiting up to 10 s for directory $PWD/step" step.log
mkdir step
wait_for "job $step" state_is "$step" succeeded
expect "0 1" "$(cat step/0 step/1 | xargs)" "output of the step's tasks"

# A job that is cancelled while it waits ends at once, and its GPUs are free.
gone=$(divvy submit --quiet --gpus 1 -o gone/out -- touch gone-began)
waits_for "$gone" gone
divvy cancel "$gone" >/dev/null
wait_for "the end of a job that was cancelled while it waited" state_is "$gone" cancelled
mkdir gone

# kill -9 of the supervisor, and then of the daemon: the job starts once, when the directory exists.
killed=$(divvy submit --quiet -o killed/out -- sh -c 'echo began >>began; echo written')
waits_for "$killed" killed
supervisor=$(sed -n 's/^supervisor=\([0-9]*\) .*/\1/p' "$DIVVY_HOME/runs/$killed" 2>/dev/null || true)
[ -n "$supervisor" ] || fail "no record names its supervisor: $(ls -R "$DIVVY_HOME" | head -50)"
kill -9 "$supervisor"
wait_for "a new supervisor" sh -c "grep -q '^supervisor=' '$DIVVY_HOME/runs/$killed' && ! grep -q '^supervisor=$supervisor ' '$DIVVY_HOME/runs/$killed'"
kill -9 "$(daemon_pid)"
divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port"
waits_for "$killed" killed
mkdir killed
wait_for "job $killed" state_is "$killed" succeeded
expect "began written" "$(cat began killed/out | xargs)" "a job whose supervisor and daemon were killed while it waited"

# The same on an agent's node.
divvy token create --node >a.token 2>/dev/null
on a agent --join-file "$PWD/a.token" --name a --emulate 1xT4 --detach --quiet
wait_for "node a" node_is a up
far=$(divvy submit --quiet --nodelist a -o far/out -- echo far)
waits_for "$far" far
mkdir far
wait_for "job $far" state_is "$far" succeeded
expect far "$(cat far/out)" "what a job on another machine wrote"

wait_for "job $never" state_is "$never" failed
reason_says "$never" "its directory '$PWD/never' does not exist and was not created within 10 s" || fail "it failed because: $(field "$never" reason)"
echo "slow_clients: passed"
