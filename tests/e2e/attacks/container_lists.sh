#!/usr/bin/env bash
# The list of a job's containers, which the daemon reads when the job ends: alice makes it very long, and names her own
# program as the engine.
. "$(dirname "$0")/lib.sh"
mkdir /var/lib/gpus
numbers=(5 7 8 9) # Minor numbers of zero, full, random and urandom. Device rules match them, so they must differ.
for gpu in 0 1 2 3; do mknod -m 666 "/var/lib/gpus/gpu$gpu" c 1 "${numbers[gpu]}"; done
serve '[isolation]' 'device_files = "/var/lib/gpus/gpu*"' '[notify]' 'user_commands = false'
daemon=$(daemon_pid)

# 4 MiB of distinct lines. The daemon must still answer.
for line in "env =%d" "begun divvy-1-1-%d" "ended %d"; do
  script_of alice long.py <<P
#!/usr/bin/python3
import os
open(os.environ["DIVVY_STEPS"] + ".containers", "w").write("".join("$line\n" % n for n in range(100000, 480000))[:4 << 20])
P
  job=$(as alice divvy submit --quiet --gpus 1 -- ./long.py)
  # A daemon that is busy with the list would block the end of this test.
  timeout 20 divvy wait "$job" >/dev/null || { kill -9 "$daemon"; fail "the daemon does not answer after a list of '$line'"; }
done
used=$(awk '{ print $14 + $15 }' "/proc/$daemon/stat")
[ "$used" -lt 300 ] || fail "the daemon has used $((used / 100)) s of CPU time for three lists"

# An engine of alice's own does not run after the job has ended, wherever it is.
script_of alice podman <<'S'
#!/bin/sh
touch /var/lib/home/alice/ran
S
job=$(as alice divvy submit --quiet --gpus 1 -- sh -c \
  'printf "engine /var/lib/home/alice/podman\nenv PATH=/var/lib/home/alice\nbegun divvy-%s-1-5\n" $DIVVY_JOB_ID >$DIVVY_STEPS.containers')
wait_for "the end of the job" state_is "$job" succeeded
[ ! -e /var/lib/home/alice/ran ] || fail "a program that the job named ran when the job had ended"

# The configured engine starts programs that the job names, as podman does. They cannot open GPUs, and end when the
# container is removed.
divvy status | grep -q 'enforced (cgroup' || exit 0
cat >/var/lib/bin/podman <<'S'
#!/bin/sh
exec helper
S
chmod 755 /var/lib/bin/podman
printf '[container]\nengine = "/var/lib/bin/podman"\n' >>/etc/divvy/divvy.toml
divvy down >/dev/null
divvy up --quiet --emulate 4xA100-40GB
script_of alice helper <<'S'
#!/bin/sh
for gpu in 0 1 2 3; do /usr/bin/head -c 1 /var/lib/gpus/gpu$gpu >/dev/null 2>&1 && echo "opens $gpu" >>/var/lib/home/alice/ran; done
/usr/bin/setsid /usr/bin/sleep 1000 &
echo $! >/var/lib/home/alice/left
S
job=$(as alice divvy submit --quiet --gpus 1 -- sh -c \
  'printf "engine /usr/bin/podman\nenv PATH=/var/lib/home/alice\nbegun divvy-%s-1-5\n" $DIVVY_JOB_ID >$DIVVY_STEPS.containers')
wait_for "the end of the job" state_is "$job" succeeded
[ -s /var/lib/home/alice/left ] || fail "the machine's engine was not run"
[ ! -e /var/lib/home/alice/ran ] || fail "what the engine started $(cat /var/lib/home/alice/ran)"
WAIT_S=5 wait_for "the end of what the engine left" sh -c "! kill -0 $(cat /var/lib/home/alice/left) 2>/dev/null"
