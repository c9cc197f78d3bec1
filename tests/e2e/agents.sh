#!/usr/bin/env bash
# Nodes join a controller: once by a token, and from then on by their own key, over kill -9 of either side. An agent
# that claims another node's name or GPU, or uses a spent token, is refused with the reason. Administrators decide which
# nodes take work.
. "$(dirname "$0")/lib.sh"

port=
up_listening
home=$DIVVY_HOME
with_machines

refused() { # WHAT COMMAND...
  ! "${@:2}" >out 2>err || fail "was let in: ${*:2}"
  grep -q "$1" err || fail "${*:2} says: $(cat err)"
}

# The file of a token is readable by its owner only, whatever the umask.
(umask 022 && divvy token create --node >n1.token 2>said)
expect 600 "$(stat -c %a n1.token)" "the mode of a token's file"
umask 077
grep -q 'with which 1 node may join; valid for 1 h (--expires). On the other machine, run divvy agent --join-file FILE --detach, where FILE ' said || fail "says: $(cat said)"
divvy token create --node --uses 3 --expires 1h >many.token 2>/dev/null
divvy token create --expires never >user.token 2>said
grep -q 'valid until divvy token remove removes it. On the other machine' said || fail "says: $(cat said)"

# In the foreground, with the token on standard input. No secret is on the agent's command line.
on n1 agent --join - --name n1 --emulate 4xA100-40GB --label rack=r7 <n1.token 2>n1.log &
wait_for "n1" node_is n1 up
secret=$(sed 's/.*#//' n1.token)
! tr '\0' ' ' <"/proc/$(agent_pid n1)/cmdline" | grep -q "$secret" || fail "the token is on the command line"
! grep -rq "$secret" "$machines/n1" || fail "the token was kept"
divvy nodes | grep -q '^n1 *up *4 .*NVIDIA A100' || fail "nodes shows: $(divvy nodes)"
divvy nodes --json | grep -q '"rack":"r7"' || fail "its label is missing"
divvy nodes --json | grep -q '"is_controller":true' || fail "the controller's own machine is missing"

# A single-use token is spent. A command line's token lets no node join, and a node's token lets no user act.
refused 'has admitted as many nodes as it may' on n2 agent --join-file "$home/n1.token" --name n2 --emulate 1xA100-40GB
refused 'is for a command line' on n2 agent --join-file "$home/user.token" --name n2
DIVVY_CONTROLLER=$home/many.token refused 'lets a machine join as a node' env -u DIVVY_HOME "$divvy_binary" queue
refused 'has not joined a controller' on n2 agent
refused 'not a token line\|give a token line' on n2 agent --join nonsense

# The controller's machine cannot also be its agent: its GPUs would be given out twice. Nor can a node run its own
# daemon.
refused 'a daemon (pid .*agents are for other machines, and divvy down ends it' divvy agent --join-file many.token --name twin --detach
expect "" "$(node_state twin)" "the state of the controller as its own node"
on n1 up --quiet --emulate 1xA100-40GB >out 2>err && fail "a daemon runs beside the agent"
grep -q 'an agent (pid .*; divvy agent --stop ends it' err || fail "a daemon beside an agent: $(cat err)"

# If nobody listens, this is reported soon, and no agent is left running.
sed "s/127.0.0.1:$port/127.0.0.1:1/" many.token >nowhere.token
refused 'nothing was joined' on n2 agent --join-file "$home/nowhere.token" --name n2 --emulate 1xA100-40GB --detach --quiet

flock -n "$machines/n2/agent/agent.lock" true || fail "the agent that did not join is still there"

# Another machine that uses n1's name, and one that claims n1's GPUs.
refused 'there is a node n1 already' on n2 agent --join-file "$home/many.token" --name n1
cat >stolen.gpus <<EOF
[gpu]
model = A100-40GB
uuid = $(divvy nodes --json | grep -o '"name":"n1".*' | grep -o 'GPU-[0-9a-f-]*' | head -n 1)
EOF
refused 'which node n1 has' on n3 agent --join-file "$home/many.token" --name n3 --emulate "$home/stolen.gpus"
expect "" "$(node_state n3)" "the state of who was refused"

# In the background. The token has uses left, because refused agents used none of them.
on n2 agent --join-file "$home/many.token" --name n2 --emulate 1xA100-40GB --detach --quiet || fail "n2 did not join"
node_is n2 up || fail "n2 is $(node_state n2)"
refused 'another agent (pid' on n2 agent

# The agent is killed. It reconnects with its own key.
pid=$(agent_pid n1)
kill_agent n1
wait_for "n1's absence" node_is n1 away
on n1 agent --detach >said || fail "n1 did not connect again"
grep -q "this machine is node n1 of the controller at 127.0.0.1:$port; its log is $machines/n1/agent/agent.log" said ||
  fail "says: $(cat said)"
wait_for "n1's return" node_is n1 up
[ "$(agent_pid n1)" != "$pid" ] || fail "it is the same process"

# The controller is killed. Both nodes reconnect to the next one.
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
up_listening "$port"
wait_for "n1 after the controller's restart" node_is n1 up
wait_for "n2 after the controller's restart" node_is n2 up
wait_for "the new epoch on n1" grep -q '^epoch 2$' "$machines/n1/agent/agent.state"

# A changed number of GPUs is accepted, and the node is not drained.
kill_agent n2
on n2 agent --emulate 3xA100-40GB --detach --quiet || fail "n2 did not come with other GPUs"
divvy nodes | grep -q '^n2 *up *3 ' || fail "n2's GPUs are not learned: $(divvy nodes)"

# An old key is replaced automatically.
before=$(sha256sum <"$machines/n2/agent/identity.pem")
kill_agent n2
touch -d '40 days ago' "$machines/n2/agent/identity.pem"
on n2 agent --detach --quiet || fail "n2 did not come with its old key"
key_changed() { [ "$(sha256sum <"$machines/n2/agent/identity.pem")" != "$before" ]; }
wait_for "n2's next key" key_changed
kill_agent n2
on n2 agent --detach --quiet || fail "n2 did not come with its new key"
node_is n2 up || fail "n2 is $(node_state n2)"

# Commands of administrators.
divvy node cordon n1 --reason "new fan" | grep -q 'takes no new work' || fail "cordon says nothing"
node_is n1 cordoned || fail "n1 is $(node_state n1)"
divvy nodes | grep -q 'new fan, by' || fail "the reason is not shown"
divvy node drain n1 n2 --deadline 2h >/dev/null
node_is n2 drained || fail "n2 is $(node_state n2)"
divvy node resume n1 n2 >/dev/null
divvy node label n1 zone=a rack=r9 >/dev/null
divvy nodes --json | grep -q '"rack":"r9"' || fail "the label is not taken"
refused "there is no node 'n9'" divvy node drain n1 n9
node_is n1 up || fail "n1 was drained with one that is none"
divvy nodes | grep '^n1' | grep -q deadline && fail "a node that takes work has a deadline"
refused "no labels" divvy node label "$(divvy nodes --csv | grep 'the controller' | cut -d, -f1)" x=y
id=$(divvy submit --quiet --nodelist n2 --gpus 1 -- sh -c "until [ -e $machines/leave ]; do sleep 0.02; done")
wait_for "its start" state_is "$id" running
refused "divvy node drain n2 first" divvy node remove n2
divvy node drain n2 --deadline 2h >/dev/null
divvy nodes | grep '^n2' | grep -q 'deadline in' || fail "the deadline is not shown: $(divvy nodes)"
refused "n2, which is draining; wait" divvy node remove n2
touch "$machines/leave"
wait_for "its end" state_is "$id" succeeded
# A second agent in the same folder is refused with the command that ends the first one.
refused "divvy agent --stop ends it" on n2 agent
on n2 agent --stop --quiet || fail "the agent was not stopped"
refused "no agent runs here" on n2 agent --stop
on n2 agent --detach --quiet || fail "n2 did not come again"
wait_for "n2" node_is n2 drained
pid=$(agent_pid n2)
refused "the agent of n2 is connected" divvy node remove n2 --gone
refused "gone works only with remove" divvy node drain n2 --gone
divvy node remove n2 | grep -q 'removed n2' || fail "remove says nothing"
expect "" "$(node_state n2)" "the state of who was removed"
# The agent ends by itself.
wait_for "the end of the agent of a removed node" sh -c "! grep -qs '^State:[[:space:]]*[^Z[:space:]]' /proc/$pid/status"
refused 'certificate of this agent is unknown here' on n2 agent

echo "agents: passed"
