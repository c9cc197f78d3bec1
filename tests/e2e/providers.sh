#!/usr/bin/env bash
# Nodes on demand from a provider's program that starts agents on this machine. A burst of jobs and a gang run, idle
# nodes are returned, and kill -9 of the controller at random moments, with a provider that fails and hangs, leaks
# nothing, creates nothing twice and exceeds no limit. DIVVY_KILLS: how often (default: 6).
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
command -v python3 >/dev/null || skip "python3 is not installed"

kills=${DIVVY_KILLS:-6}
most=4
with_machines
state=$machines/local
mkdir -p "$state"
provider=${here%/*}/providers/local_provider.py

providers() {
  cat <<EOF
[[providers]]
name = "local"
command = ["$provider", "$state"]
max_nodes = $most
timeout = "10s"
poll = "1s"
idle = "2s"
min_lifetime = "1s"

[[providers.shapes]]
name = "h100x8"
gpu_model = "H100-80GB"
gpus = 8
cpus = 1
memory = "1G"
price = 24
startup = "5s"
EOF
  # Two cheaper providers whose programs are of no use: one prints 100 MB, and one hangs.
  for useless in flood hang; do
    printf '\n[[providers]]\nname = "%s"\ncommand = ["%s"]\ntimeout = "3s"\n' $useless "$DIVVY_HOME/$useless"
    printf '[[providers.shapes]]\nname = "s"\ngpu_model = "H100-80GB"\ngpus = 8\ncpus = 1\nmemory = "1G"\nprice = 1\nstartup = "5s"\n'
  done
}
start() {
  for try in 1 2 3 4 5; do
    port=${port:-$((20000 + (RANDOM + $$) % 12000))}
    ! divvy up --quiet --listen "127.0.0.1:$port" 2>up.log || return 0
    grep -q "Address already in use" up.log || fail "did not start: $(cat up.log)"
    [ "$try" != 5 ] || fail "found no free port"
    port=
  done
}
node_count() { ls "$state/nodes" 2>/dev/null | wc -l; }
nothing_left() { [ "$(node_count)" = 0 ] && [ "$(divvy providers nodes --csv | wc -l)" -le 1 ]; }
ended_well() { [ "$(divvy queue --all --json --state succeeded | grep -o '"display_id"' | wc -l)" = "$1" ]; }

printf '#!/bin/sh\nexec head -c 100000000 /dev/zero\n' >flood
printf '#!/bin/sh\nsleep 1000\n' >hang
chmod +x flood hang

# A file that cannot work is refused, with the remedy.
# Without providers no name is valid, and the daemon survives that.
divvy up --quiet
! divvy providers disable local 2>err || fail "disables a provider that does not exist"
grep -qF "there is no provider 'local'; divvy.toml has no [[providers]]" err || fail "says: $(cat err)"
divvy down >/dev/null

providers >divvy.toml
! divvy up --quiet 2>err || fail "starts although no node could reach it"
grep -q 'needs listen in \[controller\]' err || fail "says: $(cat err)"
providers | sed '0,/^command/s|^command.*|command = ["/nowhere/provider"]|' >divvy.toml
! divvy up --quiet --listen 127.0.0.1:7433 2>err || fail "starts without the program"
grep -q 'cannot run /nowhere/provider: No such file' err || fail "says: $(cat err)"
echo secret >key
chmod 644 key
providers | sed "s|^name = \"local\"|&\ncredentials = \"$DIVVY_HOME/key\"|" >divvy.toml
! divvy up --quiet --listen 127.0.0.1:7433 2>err || fail "starts with credentials that others can read"
grep -q 'nobody else may read it: chmod 600' err || fail "says: $(cat err)"
rm key

# A job that no shape can run is refused at once. One that fits a shape waits for it, with the reason.
port=
providers >divvy.toml
start
! divvy submit --gpus 9 -- true 2>err || fail "accepts 9 GPUs on one node"
grep -q 'a node of a provider could not run it either: asks for 9 GPUs on one node, but the largest has 8' err || fail "says: $(cat err)"
divvy providers disable local | grep -q 'gets no new nodes' || fail "disable fails"
divvy submit --gpus 1 -- true >/dev/null
why_says() { divvy why 1 --json | grep -q "$1"; }
wait_for "the reason of a disabled provider" why_says 'provider local: it is disabled'
[ "$(node_count)" = 0 ] || fail "a disabled provider got a node"
divvy providers enable local >/dev/null
wait_for "a node on its way" why_says 'node local-1 of provider local (h100x8, 24.00/h) was requested .* ago and is expected\|requested now'
wait_for "the first job" ended_well 1

divvy providers --json | grep -q 'list: it printed more than 1 MiB' || fail "providers shows: $(divvy providers)"
divvy providers --json | grep -q 'list: it did not end within 3 s and was killed' || fail "providers shows: $(divvy providers)"

# No other machine becomes a node of the provider.
divvy token create --node >other.token 2>/dev/null
! on other agent --join-file "$DIVVY_HOME/other.token" --name local-1 --emulate 1xH100-80GB >out 2>err || fail "was let in"
grep -q 'is a node of a provider, and this token was not made for it\|there is a node local-1 already' err || fail "says: $(cat err)"

# Jobs limit which nodes are requested for them. A dry run names the nodes and their price.
! divvy submit --provider nowhere --gpus 1 -- true 2>err || fail "accepts an unknown provider"
grep -q 'provider nowhere: there is no such provider; expected local, flood, hang' err || fail "says: $(cat err)"
! divvy submit --max-price 0 --gpus 1 -- true 2>err || fail "accepts a price of 0"
grep -q "'0' is not a number above 0" err || fail "says: $(cat err)"
! divvy submit --gpus 8 : --gpus 1 --no-grow -- true 2>err || fail "accepts --no-grow in a later component"
grep -q 'component 1: --no-grow is for the whole job; give it with the first component' err || fail "says: $(cat err)"
WAIT_S=60 wait_for "the return of the node" nothing_left
divvy submit --dry-run --provider local --gpus 8 -- true >out 2>err
grep -q 'nodes on demand: if the job cannot start at once, 1 job will fit on a node that is requested now (local: 8x H100-80GB, 24.00/h)' err || fail "says: $(cat out err)"
divvy submit --dry-run --provider local --max-price 5 --gpus 8 -- true >out 2>err
grep -q 'provider local: 1 node of shape h100x8 costs 24.00 per hour, but the job allows 5.00 (--max-price)' err || fail "says: $(cat out err)"
printf '#!/bin/sh\n# DIVVY --no-grow --gpus 1\ntrue\n' >no_grow.sh
divvy submit no_grow.sh >/dev/null
divvy submit --max-price 5 --provider local --gpus 1 -- true >/dev/null
limited_says() { divvy why "$1" --json | grep -q "$2"; }
wait_for "the reason of --no-grow" limited_says 2 'the job waits for existing nodes only (--no-grow)'
wait_for "the reason of --max-price" limited_says 3 'but the job allows 5.00 (--max-price)'
# The specifications are read from the store again.
kill -9 "$(daemon_pid)"
start
wait_for "the reason of --no-grow after a restart" limited_says 2 'the job waits for existing nodes only (--no-grow)'
wait_for "the reason of --max-price after a restart" limited_says 3 'but the job allows 5.00 (--max-price)'
[ "$(node_count)" = 0 ] || fail "a node was requested for a job that allows none"

# A burst: 40 jobs with one GPU, and a gang of 2 x 8. The two jobs that wait run on its nodes.
for _ in $(seq 40); do divvy submit --gpus 1 -- sleep 1 >/dev/null; done
divvy submit --nodes 2 --gpus 8 -- sleep 1 >/dev/null
WAIT_S=120 wait_for "the burst" ended_well 44
divvy providers | grep -q '^local *command *enabled' || fail "providers shows: $(divvy providers)"
divvy providers --json | grep -q '"this_month":0\.[0-9]*[1-9]' || fail "nothing was spent: $(divvy providers --json)"
WAIT_S=90 wait_for "the return of idle nodes" nothing_left
# The cost of the nodes is known also now that they are gone, and jobs have their part of it.
reported=$(divvy report usage --by job --json)
grep -Eq '"nodes_cost":0?\.?[0-9]*[1-9]' <<<"$reported" || fail "the report has no cost: $reported"
python3 -c '
import json, sys
rows = json.load(sys.stdin)["rows"]
sys.exit(0 if any(row.get("job") and (row.get("nodes_share") or 0) > 0 for row in rows) else 1)
' <<<"$reported" || fail "no job has a part of a node: $reported"
divvy report usage --by user | grep -q 'NODE COST' || fail "the report says: $(divvy report usage --by user)"
divvy report usage --by user | tr '\n' ' ' | grep -Eq 'Nodes of providers cost [0-9.]+, of which +[0-9.]+ +belong to no +job' ||
  fail "the report says: $(divvy report usage --by user)"
# The list after a destroy has its whole output.
! grep "provider=local event=provider_error" daemon.log || fail "a call of the program failed"

# The controller is killed again and again, while it creates and destroys nodes, and the provider fails, hangs, is slow
# or answers with an error before it acts.
calls() { grep -c "^$1" "$state/calls" 2>/dev/null || true; }
echo 5 >"$state/faults"
for kill in $(seq "$kills"); do
  call=create
  [ $((kill % 2)) = 1 ] || call=destroy
  before=$(calls $call)
  divvy submit --gpus 8 -- true >/dev/null || true
  # So that nodes are also destroyed and created again.
  [ $((kill % 2)) = 1 ] || divvy providers drain local >/dev/null || true
  for _ in $(seq 600); do
    [ "$(calls $call)" = "$before" ] || break
    sleep 0.05
  done
  # At a random moment of the call that has begun.
  sleep "0.$((RANDOM % 90 + 10))"
  kill -9 "$(daemon_pid)" 2>/dev/null || true
  start
  divvy providers enable local >/dev/null
done
rm "$state/faults"
WAIT_S=300 wait_for "all jobs after $kills kills" queue_is_empty
WAIT_S=300 wait_for "the return of all nodes" nothing_left
[ "$(divvy queue --all --json --state failed,timed_out,cancelled)" = "[]" ] || fail "jobs failed: $(divvy queue --all)"
expect "" "$(cut -d' ' -f1 "$state/log" | sort | uniq -d)" "tokens with two nodes"
awk -v most=$most '$4 > most { exit 1 }' "$state/log" || fail "above the limit: $(cat "$state/log")"
! grep -rqsE '#[0-9a-f]{8}\.[0-9a-f]{64}' daemon.log || fail "a join token is in the log"
echo "$kills kills, $(calls create) calls of create and $(calls destroy) of destroy, $(wc -l <"$state/log") nodes created, none twice, at most $(cut -d' ' -f4 "$state/log" | sort -n | tail -1) at a time"
