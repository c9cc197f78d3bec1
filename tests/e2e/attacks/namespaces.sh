#!/usr/bin/env bash
# A step that joins a job from outside sees the mounts that divvy made for the job, but never those that the job's
# processes made: in those, the user controls /etc, and set-uid programs trust it.
. "$(dirname "$0")/lib.sh"
as alice unshare -Urm true 2>/dev/null || skip "users may not make namespaces here"
command -v su >/dev/null || skip "no su"
serve '[container]' 'engine = "podman"'

# The first process moves to its own namespaces, in which every user can become root by su.
script_of alice evil.sh <<'S'
#!/bin/sh
[ -n "${INSIDE:-}" ] || INSIDE=1 exec unshare -Urm "$0"
printf 'auth sufficient pam_permit.so\naccount sufficient pam_permit.so\nsession sufficient pam_permit.so\n' >"$HOME/su"
mount --bind "$HOME/su" /etc/pam.d/su
touch "$HOME/ready"
exec sleep 1000
S
# An engine of alice's own that starts her program unchanged. The test only needs a job that has an image.
install -d /var/lib/home/alice/engine
script_of alice engine/podman <<'S'
#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != some/image ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
exec "$@"
S
# Runs a command on a terminal, like an interactive user.
script_of alice at-a-terminal <<'S'
#!/usr/bin/env python3
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
S

# exploit OPTIONS: runs the attack in a job of alice's with these options of `divvy submit`; a step of hers then asks
# for root.
exploit() {
  local job answer
  rm -f /var/lib/home/alice/ready
  job=$(as alice PATH="/var/lib/home/alice/engine:$PATH" divvy submit --quiet $1 -- /var/lib/home/alice/evil.sh)
  wait_for "alice's namespaces ($1)" test -e /var/lib/home/alice/ready
  answer=$(as alice sh -c "echo | srun --jobid=$job su root -c 'echo root: \$(id -u)'" 2>&1 || true)
  ! grep -q "root: 0" <<<"$answer" || fail "alice is root by a step in a job with '$1': $answer"
  answer=$(as alice sh -c "srun --jobid=$job grep -c permit /etc/pam.d/su" 2>&1 || true)
  ! grep -q "^3" <<<"$answer" || fail "a step in a job with '$1' sees what alice mounted: $answer"
  answer=$(as alice ./at-a-terminal srun --pty "--jobid=$job" grep -c permit /etc/pam.d/su 2>&1 </dev/null || true)
  ! grep -q "^3" <<<"$answer" || fail "a step with a terminal in a job with '$1' sees what alice mounted: $answer"
  # She can still start steps as herself.
  expect 61001 "$(as alice srun --jobid="$job" id -u)" "a step in the job with '$1'"
  as alice divvy cancel --grace 0 "$job" >/dev/null
  wait_for "the end of the job" state_is "$job" cancelled
}
ln -s divvy /var/lib/bin/srun
exploit ""
exploit "--private-tmp"
exploit "--private-shm"
exploit "--pty"
exploit "--pty --private-tmp"
exploit "--image some/image"
exploit "--image some/image --private-tmp"

# The step still sees the job's private /tmp.
job=$(as alice divvy submit --quiet --private-tmp -- sh -c 'echo mine >/tmp/own; exec sleep 1000')
wait_for "the job" state_is "$job" running
expect mine "$(as alice srun --jobid="$job" sh -c 'until [ -s /tmp/own ]; do sleep 0.02; done; cat /tmp/own')" "the job's own /tmp"

# The same after a restart of the daemon: the supervisor holds the namespaces.
rm -f /var/lib/home/alice/ready
evil=$(as alice divvy submit --quiet --private-tmp -- /var/lib/home/alice/evil.sh)
wait_for "alice's namespaces" test -e /var/lib/home/alice/ready
kill -9 "$(daemon_pid)"
serve
expect mine "$(as alice srun --jobid="$job" cat /tmp/own)" "the job's own /tmp after a restart"
answer=$(as alice srun --jobid="$evil" grep -c permit /etc/pam.d/su 2>&1 || true)
! grep -q "^3" <<<"$answer" || fail "a step sees what alice mounted, after a restart: $answer"

