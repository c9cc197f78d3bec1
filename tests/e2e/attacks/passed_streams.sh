#!/usr/bin/env bash
# A supervisor that runs as root writes the output of a terminal to descriptors that the user has passed. A reader on
# the other end sees root's credentials: other supervisors, which would take the output for a command of the daemon, and
# services such as the journal.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import socket; socket.send_fds' 2>/dev/null || skip "no python3 with socket.send_fds"
cp "$attacks/pass_streams.py" /var/lib/tmp/
pass() { as alice /usr/bin/python3 /var/lib/tmp/pass_streams.py "$@"; }
serve
as bob divvy submit --quiet -- sh -c 'trap "echo got USR1" USR1; echo ready; while :; do sleep 0.02; done' >/dev/null
wait_for "bob's job" sh -c "divvy logs 1 | grep -q ready"
record() { sed -n "s/^$1=//p" /var/lib/divvy-launcher/runs/1 | tail -n 1; }
bobs=$(record control)
grep -q "$bobs" /proc/net/unix || fail "the address of bob's supervisor is not to be seen: $bobs"
# unharmed AFTER: checks that bob's job still runs.
unharmed() {
  divvy resize 1 >/dev/null 2>&1 || true
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    state_is 1 running || fail "bob's job is $(field 1 state) after $1: $(field 1 reason)"
    sleep 0.02
  done
  ! divvy logs 1 | grep -q "got USR1" || fail "bob's job was sent a signal by $1"
  local state
  state=$(sed 's/.*) //' "/proc/$(first_process 1)/stat" | cut -d' ' -f1)
  [ "$state" != T ] || fail "bob's job was paused by $1"
}

# Commands to bob's supervisor, printed by alice's job on its terminal. The terminal writes a carriage return before
# each line feed unless it is configured not to.
command_of() { printf 'command=%s\\njob=1\\nattempt=1\\nsignal=%s\\ngrace=0\\nlimit=1\\nx=\\n' "$1" "${2:-9}"; }
for words in "stop" "signal 10" "pause" "time-limit"; do
  job=$(as alice divvy submit --quiet --pty -- sh -c "stty -opost -echo; read go; printf '$(command_of $words)'; sleep 1000")
  wait_for "alice's job" state_is "$job" running
  # Her terminal is joined twice: once with bob's supervisor as its output, and once for typing.
  pass attach "$job" "dgram:$bobs" >"said.$job" 2>&1 &
  passing=$!
  as alice sh -c "{ sleep 0.5; echo; sleep 0.5; } | timeout 2 divvy attach $job" >/dev/null 2>&1 || true
  unharmed "'$words' that alice's job printed"
  kill "$passing" 2>/dev/null || true
  wait "$passing" 2>/dev/null || true
  ! grep -q "taken" "said.$job" || fail "a datagram socket was taken as output"
  as alice divvy cancel --grace 0 "$job" >/dev/null
done
# At the start of a foreground job, and as a relay.
answer=$(pass run "dgram:$bobs" true)
grep -q "400" <<<"$answer" && grep -q "standard output is a datagram socket" <<<"$answer" || fail "run with a datagram socket: $answer"
job=$(as alice divvy submit --quiet --pty -- sleep 1000)
wait_for "alice's job" state_is "$job" running
answer=$(pass attach "$job" /dev/null "dgram:$bobs")
grep -q "relay of its input is a datagram socket" <<<"$answer" || fail "attach with a datagram socket as relay: $answer"
answer=$(pass attach "$job" /proc/self/oom_score_adj)
grep -q "standard output is a kernel file" <<<"$answer" || fail "attach with a file of procfs: $answer"
unharmed "a relay"

# Even root's credentials alone are not sufficient for a command: it also needs the secret of the run record.
tell() {
  /usr/bin/python3 - "$bobs" "$@" <<'P'
import socket, sys
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.sendto(("\n".join(sys.argv[2:]) + "\n").encode(), "\0" + sys.argv[1][1:])
P
}
tell command=stop job=1 attempt=1 signal=9 grace=0
unharmed "a command of root's without the secret"
tell command=stop job=1 attempt=1 signal=9 grace=0 "secret=$(record secret | tr 0-9a-f 1-9a-f0)"
unharmed "a command of root's with another secret"
expect "640 root divvy" "$(stat -c '%a %U %G' /var/lib/divvy-launcher/runs/1)" "who may read the secret"
as alice cat /var/lib/divvy-launcher/runs/1 >/dev/null 2>&1 && fail "alice can read bob's run record"

take_lines
talking=$(as alice divvy submit --quiet --pty -- sh -c 'while :; do echo forged; sleep 0.1; done')
wait_for "alice's job" state_is "$talking" running
answer=$(pass attach "$talking" stream:/run/journal)
! grep -q "^0 .*forged" /var/lib/tmp/journal || fail "alice wrote to the journal as root"
grep -q "a socket whose peer belongs to another user" <<<"$answer" || fail "attach with the journal as output: $answer"

# Normal use works: a pipe, a file, a socket of the user's own, and the journal as output of a job without a terminal,
# which writes to it as alice.
as alice sh -c "timeout 2 divvy attach $talking </dev/zero | head -n 1" >said 2>/dev/null || true
grep -q forged said || fail "attach with a pipe printed: $(cat said)"
expect hello "$(as alice divvy run -- echo hello)" "a job in the foreground"
as alice divvy run -- echo hello >said </dev/null
expect hello "$(cat said)" "a job in the foreground whose output is a file"
