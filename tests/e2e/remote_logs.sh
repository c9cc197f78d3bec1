#!/usr/bin/env bash
# Reads the output of jobs on agents' nodes from the controller: of jobs that have ended, jobs that continue to print,
# and jobs whose agent was killed meanwhile. Covers logs that divvy keeps and files that the job names. Output of
# foreground jobs stays here.
. "$(dirname "$0")/lib.sh"

port=
up_listening
with_machines
gone_and_seen() {
  kill_agent "$1"
  wait_for "$1's absence" node_is "$1" away
}
submit() { divvy submit --quiet "$@"; }
far() { submit --gpus 1 --gpu-type a100 "$@"; }
has_line() { grep -qx "$2" "$1"; }
ended() { divvy wait "$1" >/dev/null 2>&1 || true; }

divvy token create --node >token 2>/dev/null
mkdir "$machines/n1"
printf '[gpus]\npoll = "100ms"\n[jobs]\nlog_limit = "1M"\n' >"$machines/n1/divvy.toml"
on n1 agent --join-file "$DIVVY_HOME/token" --name n1 --emulate 4xA100-40GB --detach --quiet || fail "n1 did not join"

# The job has ended. Its log is longer than one piece; its last lines are read.
id=$(far -- sh -c 'seq 1 100000; printf "\000\377end"')
ended "$id"
expect n1 "$(field "$id" node)" "its machine"
seq 1 100000 >wanted
printf '\000\377end' >>wanted
divvy logs "$id" >got || fail "its log cannot be read"
cmp wanted got || fail "its log is another one"
expect "99999 100000" "$(divvy logs -n 3 "$id" | head -n 2 | tr '\n' ' ' | sed 's/ $//')" "its last lines"
expect "n1:$machines/n1/agent/logs/$id.log" "$(divvy logs --path "$id")" "its path"
divvy logs -f "$id" >got || fail "its log cannot be followed"
cmp wanted got || fail "its log is another one when it is followed"

# The log is followed from the queue on, while the job prints, and over the end of its agent.
submit --name before --gpus 4 --gpu-type a100 -- sh -c "until [ -e $machines/free ]; do sleep 0.02; done" >/dev/null
id=$(far -- sh -c "echo one; until [ -e $machines/two ]; do sleep 0.02; done; echo two
  until [ -e $machines/go ]; do sleep 0.02; done; echo three")
divvy logs -f "$id" >followed 2>said &
follower=$!
expect queued "$(field "$id" state)" "the state of what is behind another"
# The node is not known yet, so neither is the place of the output, unless the job requests one node.
expect "" "$(field "$id" output)" "the output of what waits"
divvy show "$id" | grep -q '^output  *known when the job starts' || fail "show tells: $(divvy show "$id")"
refused=$(divvy logs --path "$id" 2>&1) && fail "the path of what waits is $refused"
echo "$refused" | grep -q 'the path of its log is not known yet' || fail "logs --path says: $refused"
pinned=$(far --nodelist n1 --hold true)
expect "n1:$machines/n1/agent/logs/$pinned.log" "$(field "$pinned" output)" "the output of what waits for n1"
divvy cancel "$pinned" >/dev/null
expect "" "$(field "$pinned" output)" "the output of what never ran"
touch "$machines/free"
wait_for "the first line" has_line followed one
gone_and_seen n1
refused=$(divvy logs "$id" 2>&1) && fail "the log of a machine that is away was read"
echo "$refused" | grep -q 'node n1 is away since 20.*; its output can be read when it is back' || fail "logs says: $refused"
wait_for "the follower's word" grep -q 'node n1 is away since' said
touch "$machines/two"
on n1 agent --detach --quiet || fail "n1 did not connect again"
wait_for "the second line" has_line followed two
touch "$machines/go"
wait $follower || fail "the follower ended with $?: $(cat said)"
expect "one two three" "$(tr '\n' ' ' <followed | sed 's/ $//')" "what was followed"
expect "one two three" "$(divvy logs "$id" | tr '\n' ' ' | sed 's/ $//')" "the log of what ended under another agent"

# Output files that the job names, with a separate file for errors.
mkdir "$machines/out"
id=$(far --chdir "$machines/out" --output '%N-%j.txt' --error errors.txt -- sh -c 'echo said; echo complained >&2')
ended "$id"
expect said "$(divvy logs "$id")" "a named file"
expect complained "$(divvy logs --error "$id")" "a named file of errors"
expect "n1:$machines/out/n1-$id.txt" "$(field "$id" output)" "where it is said to be"
rm "$machines/out/n1-$id.txt"
refused=$(divvy logs "$id" 2>&1) && fail "a file that has gone was read"
echo "$refused" | grep -q "cannot read 'n1:$machines/out/n1-$id.txt': No such file" || fail "logs says: $refused"

# A log that exceeds the limit on its node: its newest part is read, with a notice of how much is missing.
echo >holes
if fallocate -p -o 0 -l 4096 holes 2>/dev/null; then
  id=$(far -- sh -c "seq -w 1 700000; until [ -e $machines/cut ]; do sleep 0.02; done")
  log=$machines/n1/agent/logs/$id.log
  has_all() { [ "$(stat -c %s "$log")" -ge 4900000 ]; }
  # For the last time: the log may exceed the limit by an eighth, and a block on either side.
  is_cut() { [ "$(($(stat -c %b "$log") * 512))" -le $((1048576 * 9 / 8 + 2 * 65536)) ]; }
  wait_for "all of its lines" has_all
  wait_for "its log to be cut" is_cut
  divvy logs "$id" >got 2>said
  grep -q "of the log of job $id before this were dropped from its file" said || fail "of what is missing it says: $(cat said)"
  expect 700000 "$(tail -n 1 got)" "the newest line"
  [ "$(stat -c %s got)" -ge 1048576 ] || fail "less is kept than log_limit says: $(stat -c %s got)"
  expect "$(tail -n +2 got | head -n 1)" "$(seq -w 1 700000 | tail -n "$(($(wc -l <got) - 1))" | head -n 1)" "what is kept, without a gap"
  touch "$machines/cut"
  ended "$id"
fi

# The logs of an array, each under its heading.
id=$(far --array 0-1 -- sh -c 'echo "element $DIVVY_ARRAY_INDEX"')
divvy logs -f "$id" >got || fail "an array's logs cannot be followed: $(cat got)"
expect 2 "$(grep -c '^element ' got)" "the lines of an array"
divvy show "$id" | grep -q "^output  *one file for each element: divvy logs --path $id$" || fail "show tells: $(divvy show "$id")"
expect 2 "$(divvy logs --path "$id" | grep -c "^n1:$machines/n1/agent/logs/")" "the paths of an array"

# A job that waits for a retry: the log of its last run is read.
id=$(far --retries 1 --retry-delay 1h false)
wait_for "its second try" sh -c "divvy show $id | grep -q 'waits before the next try'"
# Read together with the history, which comes from the disk.
output_is() { [ "$(field "$id" output)" = "$1" ]; }
wait_for "the output of what runs again" output_is "n1:$machines/n1/agent/logs/$id.log"
expect "0" "$(divvy queue --csv --columns id,time | grep "^$id," | cut -d, -f2)" "how long it has waited for its next try"
expect "BeginTime" "$(divvy squeue -h -j "$id" -o %r)" "why Slurm's users see it wait"
expect "" "$(divvy cancel -q "$id")" "what a quiet cancel says"

# The steps of a job are listed while it runs. For a node that is away there is no list, and no command waits for it.
id=$(far --gpus 2 -- sh -c "divvy run --gpus 1 -- sh -c 'until [ -e $machines/step ]; do sleep 0.02; done' & wait")
has_step() { divvy show "$id" | grep -q '^  0  running .* sh -c .until'; }
wait_for "the step in show" has_step
divvy show --json "$id" | grep -q '"steps":\[{"number":0,' || fail "show --json tells: $(divvy show --json "$id")"
divvy squeue -s -h -o '%i %j' | grep -qx "$id.0 sh" || fail "squeue -s tells: $(divvy squeue -s)"
divvy sacct -j "$id" -n -P -o jobid,state | grep -qx "$id.0|RUNNING" || fail "sacct tells: $(divvy sacct -j "$id")"
gone_and_seen n1
# The last sample of its GPUs is out of date, and no administrator has restricted them.
expect "allocated,," "$(divvy gpus --csv --columns node,state,use,temp | grep -m 1 '^n1,allocated' | cut -d, -f2-)" "a GPU's use"
expect "away,," "$(divvy gpus --csv --columns node,state,use,temp | grep -m 1 '^n1,away' | cut -d, -f2-)" "an idle GPU"
# The next controller also knows the log's place on a node that is away.
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up_listening "$port"
expect "n1:$machines/n1/agent/logs/$id.log" "$(field "$id" output)" "the output on a machine that is away"
divvy show "$id" | grep -q '^steps' && fail "steps of a machine that is away are told"
on n1 agent --detach --quiet || fail "n1 did not connect again"
wait_for "the step after the agent's restart" has_step
touch "$machines/step"
ended "$id"
expect succeeded "$(field "$id" state)" "the job with a step"

echo "remote_logs: passed"
