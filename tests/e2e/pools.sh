#!/usr/bin/env bash
# Pools: of nodes by name and by label, with limits, caps and an order of preference; as Slurm's partitions; changed
# between two daemons.
. "$(dirname "$0")/lib.sh"

write_pools() {
  cat >divvy.toml <<TOML
[pools.debug]
nodes = "n1"
max_time = "30m"
default_time = "5m"
max_gpus = 2
running = $1
priority = 10
[pools.train]
nodes = "n[1-2]"
constraint = "ib"
default = true
[pools.alone]
nodes = "n2"
exclusive = true
[pools.closed]
nodes = "n2"
state = "drain"
TOML
}
write_pools 1
printf '[pools.old]\nnodes = "n1"\n' >>divvy.toml
port=
up_listening
with_machines
submit() { divvy submit --quiet "$@"; }
refused() {
  local words=$1
  shift
  if "$@" >out 2>&1; then fail "not refused: $*"; fi
  grep -qF "$words" out || fail "'$*' says: $(cat out)"
}

divvy token create --node --uses 2 >token 2>/dev/null
on n1 agent --join-file "$DIVVY_HOME/token" --name n1 --emulate 4xA100-40GB --detach --quiet || fail "n1 did not join"
on n2 agent --join-file "$DIVVY_HOME/token" --name n2 --emulate 4xA100-40GB --label pool=night --detach --quiet || fail "n2 did not join"
wait_for "n2" node_is n2 up

# The list of pools.
divvy pools >pools
grep -Eq '^debug +up +n1 +4 +4 +0 +0 +2 GPUs at most, 30 min +1 job' pools || fail "divvy pools shows: $(cat pools)"
grep -Eq '^train\* +up +n\[1-2\] +8 +8' pools || fail "divvy pools shows: $(cat pools)"
grep -Eq '^night +up +n2 ' pools || fail "divvy pools shows: $(cat pools)"
divvy sinfo -h -o '%P %a %l %N' >sinfo
grep -qx 'train\* up infinite n\[1-2\]' sinfo || fail "sinfo shows: $(cat sinfo)"
grep -qx 'debug up 30:00 n1' sinfo || fail "sinfo shows: $(cat sinfo)"
grep -q '^main' sinfo && fail "sinfo shows main beside a default: $(cat sinfo)"
divvy scontrol show partition debug >partition
for words in 'MaxTime=00:30:00' 'DefaultTime=00:05:00' 'Nodes=n1' 'PriorityTier=10' 'Default=NO' 'State=UP'; do
  grep -q "$words" partition || fail "scontrol show partition: no $words in $(cat partition)"
done

divvy sbatch --test-only -G1 --wrap true 2>test-only || fail "sbatch --test-only: $(cat test-only)"
grep -q 'in partition train$' test-only || fail "--test-only names another partition: $(cat test-only)"
[ -z "$(divvy queue --no-header -o id)" ] || fail "an empty queue prints $(divvy queue --no-header -o id)"

# Refused at once, with the limit; Slurm's commands use Slurm's messages.
refused "asks for 3 GPUs, but pool debug gives a job 2 at most" divvy submit --pool debug --gpus 3 true
refused "give --time 30m or less" divvy submit --pool debug --time 1h true
refused "pool closed takes no jobs: its state is drain" divvy submit --pool closed true
refused "there is no pool 'dbug'" divvy submit --pool dbug true
refused "Invalid partition name specified" divvy sbatch -p dbug --wrap true
refused "Requested time limit is invalid" divvy sbatch -p debug -t 60 --wrap true

# A job that names no pool is in the default one. A job that names two runs where there is room. A cap counts all jobs
# of the pool.
id=$(submit --gpus 1 -- sleep 1000)
wait_for "its start" state_is "$id" running
expect train "$(field "$id" pool)" "the pool of a job that names none"
divvy cancel "$id" >/dev/null
first=$(submit --pool debug,train --gpus 1 -- sleep 1000)
wait_for "the first" state_is "$first" running
expect n1 "$(field "$first" node)" "its machine, in the pool that it likes best"
second=$(submit --pool debug,night --gpus 1 -- sleep 1000)
wait_for "the second" state_is "$second" running
expect n2 "$(field "$second" node)" "its machine: debug has its one job"
third=$(submit --pool debug --gpus 1 -- sleep 1000)
divvy why "$third" >why
grep -q 'pool debug' why || fail "why says: $(cat why)"
divvy pools --json | grep -o '"name":"debug".*' | grep -q '"running":1,"queued":1' || fail "pools: $(divvy pools --json)"

# A job that needs a whole node: not on one that the second job uses.
alone=$(submit --pool alone --gpus 1 -- sleep 1000)
divvy why "$alone" >why
grep -q 'pool alone allocates whole nodes' why || fail "why says: $(cat why)"
divvy cancel "$second" >/dev/null
wait_for "a machine to itself" state_is "$alone" running
expect 4 "$(divvy show "$alone" --json | grep -o '"gpus":\[[0-9,]*\]' | head -n 1 | tr -cd '0-9' | wc -c)" "its GPUs"
# For a list of pools, each pool's blocker is reported: what is missing, or why it is not open.
both=$(submit --pool debug,alone --gpus 2 -- true)
divvy why "$both" >why
grep -q 'pool debug runs 1 of at most 1 job' why || fail "why says: $(cat why)"
grep -q 'pool alone' why || fail "why says: $(cat why)"
divvy cancel "$both" >/dev/null
two=$(submit --pool train,alone --gpus 4 -- true)
divvy why "$two" >why
grep -q 'in pool train' why || fail "why says: $(cat why)"
grep -q 'pool alone' why || fail "why says: $(cat why)"
divvy cancel "$two" >/dev/null
beside=$(submit --pool night -- true)
divvy why "$beside" | grep -q "used exclusively by other jobs" || fail "why says: $(divvy why "$beside")"

# Another configuration and another daemon: the jobs continue, and the pool has room for one more. A job that waits for
# a removed pool reports that.
orphan=$(submit --pool old --priority -1 --gpus 4 -- true)
divvy down >/dev/null
write_pools 2
up_listening "$port"
wait_for "the third" state_is "$third" running
state_is "$first" running || fail "the first is $(field "$first" state)"
divvy why "$orphan" | grep -q "there is no pool 'old'; divvy update $orphan --pool NAME" || fail "why says: $(divvy why "$orphan")"
divvy cancel --all >/dev/null
wait_for "their ends" queue_is_empty

# A job without GPUs can also have a whole node: none of it is free.
empty=$(submit --pool alone -- sleep 1000)
wait_for "a machine to itself" state_is "$empty" running
expect n2 "$(field "$empty" node)" "its machine"
divvy nodes | grep -Eq "^n2 +up +4 +0 .*job $empty uses it exclusively" || fail "nodes shows: $(divvy nodes)"
expect 4 "$(divvy gpus --csv --no-header -o NODE,STATE,JOB | grep -c "^n2,allocated,$empty$")" "its GPUs"
divvy pools | grep -Eq '^alone +up +n2 +4 +0 ' || fail "divvy pools shows: $(divvy pools)"
divvy status | grep -Eq 'GPUs +6 of 10 free' || fail "status shows: $(divvy status)"
expect "n2 alloc" "$(divvy sinfo -h -p alone -o '%N %t')" "its state in Slurm's words"
beside=$(submit --pool night --gpus 1 -- true)
divvy show "$beside" | grep -q "the nodes that fit its request are used exclusively by other jobs" || fail "$(divvy show "$beside")"
divvy cancel --all >/dev/null
wait_for "their ends" queue_is_empty
divvy down >/dev/null
