#!/usr/bin/env bash
# A job's terminal outlives who looks at it: a viewer that is killed, hung up or cut off by a restart of a daemon or an agent has left,
# ends nobody's input and reads nothing any more; it joins again, and its own terminal is given back meanwhile.
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

# What a terminal's job is here: it says each line that is typed, and "over" at the end of its input.
echoes='while read -r line; do echo "got $line"; done; echo over'
# view NAME COMMAND...: the command on a terminal of its own. What is written to NAME.in is typed, NAME.out is shown, NAME.pid is it,
# NAME.code its exit code. Between its lines it says that its terminal is its shell's again.
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
  # First, for script(1) types the end of what it reads.
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
# After a restart an agent says so first.
goes_on() { wait_for "the job whose viewer was lost ($where, $1), which runs" state_is "$id" running; }
finish() {
  divvy cancel --now "$id" >/dev/null
  wait_for "the end of $id" queue_is_empty
}

for where in "$here" "$far"; do
  for signal in HUP KILL; do
    # One of two viewers is killed: the other's goes on, and its own terminal is its shell's again.
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
    # The window closes.
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
  # The end of what is no terminal is the end of the input; who has sent it sees the rest.
  start
  echo last | divvy attach "$id" >piped 2>&1 || fail "what was piped ended with $?: $(cat piped)"
  grep -q 'got last' piped && grep -q over piped || fail "what was piped was not heard, or its end ($where): $(cat piped)"
  wait_for "its end" queue_is_empty
  expect "got only" "$(echo only | divvy run $where --pty -- sh -c 'read -r line; cat; echo "got $line"' 2>&1 | tr -d '\r' | grep got)" \
    "what was piped to one's own terminal ($where)"
  # A terminal has its caller's size when its job begins to ask.
  script -qefc "stty rows 33 cols 77; divvy run $where --pty -- sh -c 'until [ \"\$(stty size)\" = \"33 77\" ]; do sleep 0.02; done; echo sized'" \
    sized </dev/null >/dev/null || fail "a terminal ended with $?: $(cat sized)"
done

# The daemon is killed, or ended and started again, under viewers: each joins again by itself, with its own terminal given back meanwhile.
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
    shows one 'goes on, and this joins it again'
    shows leaves 'goes on, and this joins it again'
    # Ctrl-C is a signal again, and ends the viewer alone.
    types leaves '\003'
    wait_for "the shell of what was left" sh -c "kill -0 $(cat leaves.pid) || exit 0; exit 1"
    close leaves
    back_up
    shows one "joined job $id again"
    types one 'second\n'
    shows one 'got second'
    goes_on "the daemon's $how"
    types one '\020\021'
    expect 0 "$(code_of one)" "leaving what was joined again"
    types one 'mine\n'
    shows one 'shell mine'
    goes_on "left after the daemon's $how"
    close one
    # It ends while no daemon is there, and its viewer learns how.
    view one divvy attach "$id"
    types one 'third\n'
    shows one 'got third'
    end_daemon $how
    shows one 'goes on, and this joins it again'
    back_up
    shows one "joined job $id again"
    types one '\004'
    expect 0 "$(code_of one)" "the exit code of what was joined again"
    close one
  done
done

# One's own terminal goes on over a restart of the daemon, and can be left after it and while there is none.
for where in "$here" "$far"; do
  for when in back away; do
    view own "divvy run $where --pty --name own -- sh -c '$echoes'"
    types own 'first\n'
    shows own 'got first'
    id=$(divvy queue --json | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2)
    end_daemon kill
    shows own 'went away'
    if [ $when = away ] && [ "$where" = "$here" ]; then
      # At once, for its keeper is here.
      types own '\020\021'
      expect 0 "$(code_of own)" "leaving one's own terminal while there is no daemon"
    elif [ $when = away ]; then
      types own '\003'
      shows own 'Ctrl-C again leaves the job to itself'
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
    # Who waits for it then is nobody at its terminal.
    timeout 0.5 divvy wait "$id" && fail "it ended ($where, $when)"
    goes_on "whose waiter was ended"
    close own
    finish
  done
done

# Without job control on several machines, which is said.
divvy run --pty --nodes 1 $here -- true </dev/null 2>told || fail "one machine's ended with $?: $(cat told)"
grep -q 'job control' told && fail "one machine is told: $(cat told)"
divvy token create --node >token 2>/dev/null
on n2 agent --join-file "$DIVVY_HOME/token" --name n2 --emulate 4xA100-40GB --detach --quiet || fail "n2 did not join"
divvy run --pty --nodes 2 $far -- true </dev/null >told 2>&1 || fail "two machines' ended with $?: $(cat told)"
grep -q 'no job control' told || fail "two machines are told: $(cat told)"

# The agent is killed, or ended and started again: a terminal of its machine is only left, also one's own.
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
  shows own 'joins its terminal again'
  own=$(sed -n 's/.*divvy attach \([0-9]*\) joins its terminal again.*/\1/p' own.out)
  goes_on "its agent's $how"
  expect running "$(field "$own" state)" "one's own job after its agent's $how"
  shows one "joined job $id again"
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

# While an agent is away its terminals say so, and can be left: one's own, and one that was joined.
view own "divvy run $far --pty --name own -- sh -c '$echoes; exit 7'"
types own 'own\n'
shows own 'got own'
id=$(divvy queue --json | grep -oE '"id":[0-9]+' | head -n 1 | cut -d: -f2)
view one divvy attach "$id"
shows one 'got own'
kill_agent n1
for name in own one; do
  shows $name "agent on the machine of job $id is away"
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

echo "terminals: lost viewers have left"
