#!/usr/bin/env bash
# The terminal of a job outlives its viewers. A viewer that is killed, hung up or disconnected by a restart of a daemon
# or an agent has left: it does not end the job's input and reads nothing more. It joins again, and its own terminal is
# restored meanwhile.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip "script is not installed (apt-get install bsdutils)"

port=
printf '[controller]\nlost_after = "3s"\n' >divvy.toml
up_listening
with_machines
divvy token create --node >token 2>/dev/null
on n1 agent --join-file "$DIVVY_HOME/token" --name n1 --emulate 4xA100-40GB --detach --quiet || fail "n1 did not join"
here="--gpus 1 --gpu-type h100"
far="--gpus 1 --gpu-type a100"
gone() { ! kill -0 "$1" 2>/dev/null; }

# The job prints each line that is typed, and "over" at the end of its input.
echoes='while read -r line; do echo "got $line"; done; echo over'
# view NAME COMMAND...: runs the command on its own terminal. Text written to NAME.in is typed, NAME.out is the screen,
# NAME.pid its pid and NAME.code its exit code. In between it records whether the shell has its terminal back.
view() {
  local name=$1 number
  shift
  rm -f "$name".*
  mkfifo "$name.in"
  printf '%s\n' "$*" >"$name.command"
  printf '%s\n' 'sh -c "echo \$\$ >$NAME.pid; exec $(cat $NAME.command)"; code=$?; stty -a >$NAME.tty; echo $code >$NAME.code
    while read -r line; do echo "shell $line"; done' >"$name.sh"
  NAME=$name script -qefc "bash $name.sh" "$name.out" <"$name.in" >/dev/null 2>&1 &
  echo $! >"$name.script"
  exec {number}>"$name.in"
  eval "${name}_in=$number"
}
types() {
  local number="$1_in"
  printf '%b' "$2" >&"${!number}"
}
close() {
  local number="$1_in"
  # First, because script(1) types the end of its input.
  kill -9 "$(cat "$1.script")" 2>/dev/null || true
  eval "exec ${!number}>&-"
  wait "$(cat "$1.script")" 2>/dev/null || true
}
shows() { wait_for "'$2' on $1: $(tail -n 5 "$1.out" 2>/dev/null)" grep -q "$2" "$1.out"; }
code_of() {
  wait_for "the end of $1" test -s "$1.code"
  cat "$1.code"
}
start() {
  id=$(divvy submit --quiet --pty $where -- sh -c "$echoes")
  wait_for "the start of $id" state_is "$id" running
}
# After a restart, an agent reports the job first.
goes_on() { wait_for "the job whose viewer was lost ($where, $1), which runs" state_is "$id" running; }
finish() {
  divvy cancel --now "$id" >/dev/null
  wait_for "the end of $id" queue_is_empty
}

for where in "$here" "$far"; do
  for signal in HUP KILL; do
    # One of two viewers is killed. The other one continues, and the killed viewer's terminal belongs to its shell
    # again.
    start
    view one divvy attach "$id"
    view two divvy attach "$id"
    types one 'first\n'
    shows one 'got first'
    shows two 'got first'
    kill -$signal "$(cat one.pid)"
    code_of one >/dev/null
    types one 'mine\n'
    shows one 'shell mine'
    types two 'second\n'
    shows two 'got second'
    grep -q 'got mine' two.out && fail "the job has read what was typed to the shell of a viewer that was killed ($where, $signal)"
    grep -q over two.out && fail "the job's input has ended ($where, $signal)"
    goes_on "$signal"
    # The terminal window closes.
    close two
    view again divvy attach "$id"
    shows again 'got second'
    types again 'third\n'
    shows again 'got third'
    grep -q over again.out && fail "the job's input has ended with a window ($where)"
    types again '\020\021'
    expect 0 "$(code_of again)" "leaving"
    goes_on "the window closed"
    close one
    close again
    finish
  done
  # When the input is not a terminal, its end is the end of the job's input. The sender sees the rest of the output.
  start
  echo last | divvy attach "$id" >piped 2>&1 || fail "what was piped ended with $?: $(cat piped)"
  grep -q 'got last' piped && grep -q over piped || fail "what was piped was not heard, or its end ($where): $(cat piped)"
  wait_for "its end" queue_is_empty
  expect "got only" "$(echo only | divvy run $where --pty -- sh -c 'read -r line; cat; echo "got $line"' 2>&1 | tr -d '\r' | grep got)" \
    "what was piped to one's own terminal ($where)"
  # The terminal has the size of its caller's one by the time the job queries it.
  script -qefc "stty rows 33 cols 77; divvy run $where --pty -- sh -c 'until [ \"\$(stty size)\" = \"33 77\" ]; do sleep 0.02; done; echo sized'" \
    sized </dev/null >/dev/null || fail "a terminal ended with $?: $(cat sized)"
done

# The daemon is killed, or stopped and started again, under viewers. Each joins again by itself, and has its own
# terminal back meanwhile.
back_up() {
  up_listening "$port"
  wait_for "n1" node_is n1 up
}
end_daemon() {
  local pid
  pid=$(daemon_pid)
  if [ "$1" = kill ]; then kill -9 "$pid"; else divvy down >/dev/null; fi
  wait_for "the daemon's end" gone "$pid"
}
for where in "$here" "$far"; do
  for how in kill down; do
    start
    view one divvy attach "$id"
    view leaves divvy attach "$id"
    types one 'first\n'
    shows one 'got first'
    shows leaves 'got first'
    end_daemon $how
    shows one 'keeps running, and this command rejoins it'
    shows leaves 'keeps running, and this command rejoins it'
    # Ctrl-C is a signal again and ends only the viewer.
    types leaves '\003'
    wait_for "the shell of what was left" sh -c "kill -0 $(cat leaves.pid) || exit 0; exit 1"
    close leaves
    back_up
    shows one "rejoined job $id"
    types one 'second\n'
    shows one 'got second'
    goes_on "the daemon's $how"
    types one '\020\021'
    expect 0 "$(code_of one)" "leaving what was joined again"
    types one 'mine\n'
    shows one 'shell mine'
    goes_on "left after the daemon's $how"
    close one
    # The job ends while no daemon runs, and its viewer is told how.
    view one divvy attach "$id"
    types one 'third\n'
    shows one 'got third'
    end_daemon $how
    shows one 'keeps running, and this command rejoins it'
    back_up
    shows one "rejoined job $id"
    types one '\004'
    expect 0 "$(code_of one)" "the exit code of what was joined again"
    close one
  done
done

# The terminal of a `divvy run` continues over a restart of the daemon. It can be left afterwards and while there is no
# daemon.
for where in "$here" "$far"; do
  for when in back away; do
    view own "divvy run $where --pty --name own -- sh -c '$echoes'"
    types own 'first\n'
    shows own 'got first'
    id=$(divvy queue --json | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2)
    end_daemon kill
    shows own 'went away'
    if [ $when = away ] && [ "$where" = "$here" ]; then
      # Leaving works at once, because the process that holds the terminal is here.
      types own '\020\021'
      expect 0 "$(code_of own)" "leaving one's own terminal while there is no daemon"
    elif [ $when = away ]; then
      types own '\003'
      shows own 'press Ctrl-C again to leave the job running'
      types own '\003'
      expect 130 "$(code_of own)" "leaving a terminal of another machine while there is no daemon"
      types own 'mine\n'
      shows own 'shell mine'
    fi
    back_up
    if [ $when = back ]; then
      types own 'second\n'
      shows own 'got second'
      types own '\020\021'
    fi
    [ "$when $where" = "away $far" ] || expect 0 "$(code_of own)" "leaving one's own terminal over a restart ($where, $when)"
    [ "$when $where" = "away $far" ] || shows own "left job $id"
    goes_on "left after a restart"
    # After that, `divvy wait` does not join its terminal.
    timeout 0.5 divvy wait "$id" && fail "it ended ($where, $when)"
    goes_on "whose waiter was ended"
    close own
    finish
  done
done

# On several nodes there is no job control, and the user is told so.
divvy run --pty --nodes 1 $here -- true </dev/null 2>told || fail "one machine's ended with $?: $(cat told)"
grep -q 'job control' told && fail "one machine is told: $(cat told)"
divvy token create --node >token 2>/dev/null
on n2 agent --join-file "$DIVVY_HOME/token" --name n2 --emulate 4xA100-40GB --detach --quiet || fail "n2 did not join"
divvy run --pty --nodes 2 $far -- true </dev/null >told 2>&1 || fail "two machines' ended with $?: $(cat told)"
grep -q 'no job control' told || fail "two machines are told: $(cat told)"

# The agent is killed, or stopped and started again: terminals on its node are left, including that of a `divvy run`.
where=$far
for how in kill down; do
  start
  view one divvy attach "$id"
  types one 'first\n'
  shows one 'got first'
  view own "divvy run $far --pty --name own -- sh -c '$echoes; exit 6'"
  types own 'own\n'
  shows own 'got own'
  if [ $how = kill ]; then kill_agent n1; else on n1 agent --stop >/dev/null; fi
  on n1 agent --detach --quiet || fail "n1 did not come again"
  shows own 'rejoins its terminal'
  own=$(sed -n 's/.*divvy attach \([0-9]*\) rejoins its terminal.*/\1/p' own.out)
  goes_on "its agent's $how"
  expect running "$(field "$own" state)" "one's own job after its agent's $how"
  shows one "rejoined job $id"
  types one 'second\n'
  shows one 'got second'
  view joins divvy attach "$own"
  shows joins 'got own'
  types joins 'more\n'
  shows joins 'got more'
  types joins '\004'
  expect 6 "$(code_of joins)" "the exit code of one's own job, joined again"
  expect 6 "$(code_of own)" "the exit code for who has waited"
  for name in one own joins; do close $name; done
  finish
done

# While an agent is away, terminals on its node report that and can be left: that of a `divvy run`, and one that was
# joined.
view own "divvy run $far --pty --name own -- sh -c '$echoes; exit 7'"
types own 'own\n'
shows own 'got own'
id=$(divvy queue --json | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2)
view one divvy attach "$id"
shows one 'got own'
kill_agent n1
for name in own one; do
  shows $name "agent on the node of job $id is not connected"
  types $name '\020\021'
  expect 0 "$(code_of $name)" "leaving a terminal whose agent is away ($name)"
  shows $name "left job $id"
  types $name 'mine\n'
  shows $name 'shell mine'
done
goes_on "left while its agent was away"
on n1 agent --detach --quiet || fail "n1 did not come again"
view joins divvy attach "$id"
shows joins 'got own'
types joins '\004'
expect 7 "$(code_of joins)" "the exit code of what was left while its agent was away"
for name in own one joins; do close $name; done

echo "terminals: disconnected clients are detached"
