#!/usr/bin/env bash
# alice gets the uid of an administrator who has left, while the daemon runs. Also, her job must not inherit the raised
# limits of the daemon's unit.
. "$(dirname "$0")/lib.sh"
sed -i 's/^alice:/carol:/' /etc/passwd
serve '[admin]' 'users = ["carol"]'
# The limits of process 1 are those of logins; the daemon's own limits are higher.
prlimit --pid 1 --memlock=65536:65536 --nofile=1024:2048
install -d /etc/security/limits.d
echo 'alice hard nofile 1500' >/etc/security/limits.d/alice.conf
(cd /var/lib/home/alice && setpriv --reuid=61001 --regid=61001 --clear-groups divvy gpus restrict 0-1 >/dev/null) || fail "carol is no administrator"
sed -i 's/^carol:/alice:/' /etc/passwd
is_refused() { ! as alice divvy gpus restrict all >/dev/null 2>&1; }
WAIT_S=90 wait_for "alice to have no rights of carol's" is_refused
as alice divvy gpus restrict all 2>&1 | grep -q administrator || fail "the refusal says: $(as alice divvy gpus restrict all 2>&1)"

job=$(as alice divvy submit --quiet -- sh -c 'ulimit -Hl; ulimit -Hn')
as alice divvy wait "$job" >/dev/null
expect "64 1500" "$(as alice divvy logs "$job" | xargs)" "hard limits of alice's job"
