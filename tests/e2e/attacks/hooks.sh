#!/usr/bin/env bash
# A notification command of alice's, which runs outside of jobs. It opens GPUs, inherits the launcher's own limits, and
# kills the processes that watch it.
. "$(dirname "$0")/lib.sh"
mkdir /var/lib/gpus
numbers=(5 7 8 9) # Minor numbers of zero, full, random and urandom. Device rules match them, so they must differ.
for gpu in 0 1 2 3; do mknod -m 666 "/var/lib/gpus/gpu$gpu" c 1 "${numbers[gpu]}"; done
[ -w /sys/fs/cgroup/unified/cgroup.procs ] || [ -w /sys/fs/cgroup/cgroup.procs ] || skip "no cgroup v2 that may be written"
printf 'alice hard nofile 3000\nalice hard memlock 64\n' >/etc/security/limits.conf
serve '[isolation]' 'device_files = "/var/lib/gpus/gpu*"' '[notify]' 'time_limit = "3s"'
divvy status | grep -q 'enforced (cgroup' || skip "no cgroup closes devices here"
script_of alice hook.sh <<'S'
#!/bin/sh
for gpu in 0 1 2 3; do head -c 1 /var/lib/gpus/gpu$gpu >/dev/null 2>&1 && echo "opens $gpu"; done
echo "limits $(ulimit -Hn) $(ulimit -Hl)"
S
script_of alice stay.sh <<'S'
#!/bin/sh
setsid sleep 1000 &
echo $! >"$HOME/left"
helper=$(ps -o ppid= -p $PPID | tr -d ' ')
kill -9 "$helper" $PPID
sleep 1000
S
as alice divvy notify add looks --command './hook.sh >hook.out 2>&1' --on end >/dev/null
as alice timeout 30 divvy notify test looks >/dev/null || fail "the command failed: $(cat /var/lib/home/alice/hook.out)"
expect "limits 3000 64" "$(cat /var/lib/home/alice/hook.out)" "what a notification command can do"

# Processes that it leaves behind are ended too, even if no process of the user is left to end them.
left_is_gone() { [ -s /var/lib/home/alice/left ] && ! kill -0 "$(cat /var/lib/home/alice/left)" 2>/dev/null; }
as alice divvy notify add stays --command './stay.sh' --on end >/dev/null
as alice timeout 30 divvy notify test stays >/dev/null 2>&1 || true
WAIT_S=10 wait_for "the end of what the command left behind" left_is_gone

# A command that stops the process which enforces its time limit is still ended.
as alice sh -c ': >left'
sed -i 's/^kill.*/kill -STOP "$helper" $PPID/' /var/lib/home/alice/stay.sh
as alice timeout 50 divvy notify test stays >/dev/null 2>&1 || true
wait_for "the end of a command whose helper was stopped" left_is_gone
no_cgroups() { ! find /sys/fs/cgroup -type d -name 'program-*' -newer /etc/divvy/divvy.toml 2>/dev/null | grep -q .; }
wait_for "the end of its cgroups" no_cgroups
