#!/usr/bin/env bash
# Root starts the daemon and an agent in the foreground of a terminal. Processes of user divvy must not have that
# terminal: an attacker who took one over could type into root's shell.
. "$(dirname "$0")/lib.sh"
. "$attacks/second_machine.sh"
cat >/var/lib/tmp/terminal.py <<'P'
import os, pty, select, subprocess, sys, time

shell, fd = pty.fork()
if shell == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
said, end = b"", time.monotonic() + 60
name = sys.argv[1]


def of_divvy():
    return subprocess.run(["pgrep", "-u", "divvy", "-f", name], capture_output=True, text=True).stdout.split()


def hears(until):
    global said
    while not until():
        if time.monotonic() > end:
            sys.exit(f"waited in vain; it said {said!r}")
        if select.select([fd], [], [], 0.05)[0]:
            try:
                said += os.read(fd, 65536)
            except OSError:
                return


def is_up():
    return of_divvy() and subprocess.run(["divvy", "status"], capture_output=True).returncode == 0


hears(is_up)
for pid in of_divvy():
    about = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    if about[4] != "0":
        sys.exit(f"process {pid} has terminal {about[4]}")
    for number in os.listdir(f"/proc/{pid}/fd"):
        where = os.readlink(f"/proc/{pid}/fd/{number}")
        if "/pts/" in where or "tty" in where:
            sys.exit(f"descriptor {number} of process {pid} is {where}")
os.write(fd, b"\x03")
hears(lambda: not of_divvy())
_, status = os.waitpid(shell, 0)
print(f"ended with {os.waitstatus_to_exitcode(status)}")
P
expect "ended with 0" "$(/usr/bin/python3 /var/lib/tmp/terminal.py internal-daemon divvy up --foreground --emulate 4xA100-40GB)" "the daemon in the foreground"
# The daemon prints the same without a terminal, and ends on the same signal.
timeout -s INT 5 divvy up --foreground --emulate 4xA100-40GB </dev/null >said 2>&1 || true
! pgrep -u divvy -f internal-daemon >/dev/null || fail "the daemon outlived its signal"

up_listening
make_n1
divvy token create --node >/var/lib/tmp/n1.token 2>/dev/null
# The signal also ends nsenter itself.
expect "ended with -2" "$(/usr/bin/python3 /var/lib/tmp/terminal.py internal-agent nsenter --target "$n1" --mount --pid divvy agent --join-file /var/lib/tmp/n1.token --name n1 --emulate 4xH100-80GB)" "the agent in the foreground"
