#!/usr/bin/env bash
# Users' jobs on a node whose agent does not run as root: streams, terminals, gangs, GPU fractions, steps, and calls to
# the controller.
. "$(dirname "$0")/lib.sh"
. "$attacks/second_machine.sh"
up_listening
make_n1
join_n1
on_n1="--gpus 1 --nodelist n1"

# In the foreground, with pipes and on a terminal.
expect "51002 typed" "$(echo typed | as bob divvy run $on_n1 -- sh -c 'echo "$(id -u) $(cat)"')" "a job in the foreground"
as bob divvy run $on_n1 -- sh -c 'exit 3' && fail "its exit code is lost" || expect 3 $? "its exit code"
pty=$(as bob divvy submit --quiet $on_n1 --pty -- sh -c 'tty; until [ -e seen ]; do sleep 0.02; done')
wait_for "the job with a terminal" state_is "$pty" running
WAIT_S=60 wait_for "its terminal" sh -c "divvy logs $pty | grep -q /dev/pts"
there_as bob touch /var/lib/home/bob/seen
wait_for "its end" state_is "$pty" succeeded

# Calls through the socket for jobs there, as the user of the controller.
asked=$(as bob divvy submit --quiet $on_n1 -- sh -c 'divvy submit --quiet --hold -- true')
wait_for "the job that submits" state_is "$asked" succeeded
child=$(as bob divvy logs "$asked")
expect bob "$(field "$child" user)" "whose the job is that was submitted inside"
as bob divvy cancel "$child" >/dev/null

# A job on both nodes, and a step from outside.
gang=$(as bob divvy submit --quiet --nodes 2 --gpus 1 -- sh -c 'echo "$DIVVY_NODE $(id -u)"')
wait_for "the gang" state_is "$gang" succeeded
as bob divvy logs "$gang" | grep -q "n1 51002" || fail "the gang says: $(as bob divvy logs "$gang")"
stays=$(as bob divvy submit --quiet $on_n1 -- sleep 1000)
wait_for "a job that stays" state_is "$stays" running
expect 51002 "$(as bob divvy srun --jobid "$stays" --overlap id -u)" "a step from outside"

# Half a GPU: the keeper runs as root and is started by the launcher.
half=$(as bob divvy submit --quiet --gpus 0.5 --nodelist n1 -- sh -c 'echo half; id -u')
wait_for "half a GPU" state_is "$half" succeeded
there pgrep -u root -f "divvy keeper" >/dev/null || fail "there is no keeper"

# A job of another user, a time limit, a signal, and an end that the agent does not see.
other=$(as alice divvy submit --quiet $on_n1 --time 1s -- sleep 1000)
wait_for "the limit of time" state_is "$other" timed_out
unseen=$(as bob divvy submit --quiet $on_n1 -- sh -c 'until [ -e unseen ]; do sleep 0.02; done; exit 5')
wait_for "a job whose end nobody sees" state_is "$unseen" running
there kill -9 "$(n1_pid)"
wait_for "n1 away" node_is n1 away
there_as bob touch /var/lib/home/bob/unseen
there divvy agent --detach --quiet || fail "the agent did not come again"
wait_for "its end" state_is "$unseen" failed
expect 5 "$(field "$unseen" exit_code)" "its exit code"
as bob divvy cancel --grace 0 "$stays" >/dev/null
wait_for "the last end" state_is "$stays" cancelled

# The machine's daemon does not take over the agent's jobs.
kept=$(as bob divvy submit --quiet $on_n1 -- sleep 1000)
wait_for "a job that is kept" state_is "$kept" running
there divvy agent --stop --quiet
there divvy up --quiet 2>message && fail "the daemon took over the agent's job"
grep -q "the end of job $kept of this machine's agent is not known yet; start divvy agent" message || fail "it says: $(cat message)"
there divvy agent --detach --quiet
wait_for "n1 again" node_is n1 up
state_is "$kept" running || fail "the job is $(field "$kept" state)"
as bob divvy cancel --grace 0 "$kept" >/dev/null
wait_for "its end" state_is "$kept" cancelled

# The agent is killed under a foreground job: the job's later output goes to its log.
as bob divvy run $on_n1 -- sh -c 'echo before; until [ -e late ]; do sleep 0.02; done; echo after' >said 2>&1 &
run=$!
wait_for "its first line" grep -q before said
fore=$(divvy queue --json | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2)
there kill -9 "$(n1_pid)"
wait_for "n1 away" node_is n1 away
there_as bob touch /var/lib/home/bob/late
there divvy agent --detach --quiet || fail "the agent did not come again"
wait "$run" || true
wait_for "the end of the foreground job" state_is "$fore" succeeded
as bob divvy logs "$fore" | grep -q after || fail "its log: $(as bob divvy logs "$fore")"
there divvy agent --stop --quiet
