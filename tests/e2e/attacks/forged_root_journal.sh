#!/usr/bin/env bash
# The daemon's user makes a root supervisor write a job's output, with root's credentials, into a socket of its choice.
# The journal would attribute such a line to root.
. "$(dirname "$0")/lib.sh"
/usr/bin/python3 -c 'import socket; socket.send_fds' 2>/dev/null || skip "no python3 with socket.send_fds"
serve
take_lines
job=$(as bob divvy submit --quiet --pty -- sh -c 'while :; do echo forged; sleep 0.1; done')
wait_for "bob's job" state_is "$job" running
cat >/var/lib/tmp/attach.py <<'P'
# Joins the job's terminal. Its output is a socket connected to PATH, or one end of a local pair; prints what arrives
# there.
import os, socket, sys
fields = dict(line.rstrip("\n").split("=", 1) for line in open(sys.argv[1]))
out, near = socket.socketpair()
if len(sys.argv) > 2:
    out = socket.socket(socket.AF_UNIX)
    out.connect(sys.argv[2])
quiet, _ = os.pipe()
words = f"secret={fields['secret']}\nattachment=77\nrows=24\ncolumns=80\ncommand=attach\njob={fields['job']}\nattempt={fields['attempt']}\n"
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect("\0" + fields["control"][1:])
socket.send_fds(to, [words.encode()], [quiet, out.fileno()])
out.close()
near.settimeout(20)
if len(sys.argv) == 2:
    print(near.recv(4096))
P
as_divvy() { setpriv --reuid=divvy --regid=divvy --clear-groups --inh-caps=-all /usr/bin/python3 /var/lib/tmp/attach.py "/var/lib/divvy-launcher/runs/$job" "$@"; }
as_divvy /run/journal
# Commands are processed in order: once this one is answered, the first one was processed.
as_divvy | grep -q forged || fail "a socket of the daemon's own shows nothing"
# The journal reads one connection after the other.
/usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("/run/journal"); s.send(b"the last")'
wait_for "the journal's last line, after: $(head -n 1 /var/lib/tmp/journal)" grep -q "the last" /var/lib/tmp/journal
! grep -q forged /var/lib/tmp/journal || fail "root's journal was written to: $(head -n 1 /var/lib/tmp/journal)"
as bob sh -c "timeout 5 divvy attach $job </dev/zero | head -n 1" >said 2>/dev/null || true
grep -q forged said || fail "bob cannot join his job's terminal: $(cat said)"
