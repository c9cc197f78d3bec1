#!/usr/bin/env bash
# alice sends descriptors whose close(2) blocks for a day to every process that accepts connections or messages: the
# daemon, the launcher, bob's supervisor, the keeper, an agent and its socket for jobs. None of them may block.
. "$(dirname "$0")/lib.sh"
. "$attacks/second_machine.sh"
up_listening
make_n1
join_n1
# hit KIND ADDRESS EXPECTED [AS...]: alice sends one to the address; checks the result that she gets.
hit() {
  rm -f hit.said
  ("${@:4}" /usr/bin/python3 "$attacks/lingering.py" "$1" "$2" 30 >hit.said 2>&1) &
  wait_for "the end of an attack" test -s hit.said
  expect "$3" "$(cat hit.said)" "what alice is told at $2"
}
# soon WHAT COMMAND...: checks that the command ends before alice closes her end.
soon() {
  local begun=$SECONDS
  "${@:2}" >soon.said 2>&1 || fail "$1: $(cat soon.said)"
  [ $((SECONDS - begun)) -lt 10 ] || fail "$1 waited for alice for $((SECONDS - begun)) s"
}

job=$(as bob divvy submit --quiet --gpus 1 --nodelist "$(hostname)" -- sleep 1000)
far=$(as bob divvy submit --quiet --gpus 0.5 --nodelist n1 -- sleep 1000)
for one in "$job" "$far"; do wait_for "job $one of bob's" state_is "$one" running; done
control=$(sed -n 's/^control=//p' "/var/lib/divvy-launcher/runs/$job" | tail -1)

# The kernel drops the message in transit: alice has sent it, but no process receives it.
hit dgram "$control" sent as alice
hit stream /run/divvy/divvy.sock sent as alice
hit stream /run/divvy-launcher/launches "Permission denied" as alice
hit seqpacket /run/divvy-launcher/errands "Permission denied" as alice
hit stream /var/lib/divvy-launcher/runs/share/keeper.sock "Permission denied" there_as alice
hit stream /var/lib/divvy/agent/jobs.sock sent there_as alice

soon "the daemon" divvy status
soon "the launcher" as bob divvy run --gpus 1 --nodelist "$(hostname)" -- true
soon "the agent" as bob divvy run --gpus 1 --nodelist n1 -- true
as bob divvy cancel --grace 0 "$job" >/dev/null
WAIT_S=5 wait_for "bob's supervisor, which waits for alice" state_is "$job" cancelled

# A valid request with such a socket as its output: the daemon, the launcher and her supervisor each close a copy.
python3 - "$attacks" >right.py <<'P'
import sys
text = open(sys.argv[1] + "/lingering.py").read()
print(text.replace('link.connect(', 'spec = \'{"spec":{"command":["true"],"request":{"gpus":1},"directory":"/","is_foreground":true}}\'; link.connect(')
          .replace('b"GARBAGE\\r\\n\\r\\n"', 'f"POST /v1/jobs HTTP/1.1\\r\\nHost: divvy\\r\\nContent-Type: application/json\\r\\nContent-Length: {len(spec)}\\r\\n\\r\\n{spec}".encode()')
          .replace('[ours.fileno()]', '[0, ours.fileno(), ours.fileno()]'))
P
(as alice /usr/bin/python3 "$PWD/right.py" stream /run/divvy/divvy.sock 30 >right.said 2>&1) &
wait_for "alice's job" test -s right.said
expect sent "$(cat right.said)" "what alice is told"
soon "the daemon, after a right request," divvy status
alices_end() { divvy queue --all --user alice --csv | grep -qE ',(succeeded|failed|cancelled),'; }
WAIT_S=10 wait_for "the end of alice's job, whose supervisor waits for her" alices_end
soon "the launcher, after a right request," as bob divvy run --gpus 1 --nodelist "$(hostname)" -- true
