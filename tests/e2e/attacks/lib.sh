# Sourced by the attack tests: a machine of its own with a real root daemon that serves two ordinary users, alice and bob.
#
# The machine is a mount and a PID namespace: /etc is a copy with the two users, /run and /var/lib are empty file systems in memory. So
# a test needs nothing on the host and leaves nothing there, no process either. It takes root, and is skipped (77) otherwise.
#
# alice is the attacker, bob the victim. An attack fails on the release in which it was found: DIVVY=old-divvy tests/e2e/attacks/NAME.sh.
set -eu
attacks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -z "${DIVVY_ATTACKED:-}" ]; then
  : "${DIVVY:?path of the divvy to test}"
  enter="unshare --mount --pid --fork --kill-child --mount-proc"
  if [ "$(id -u)" != 0 ] || ! $enter true 2>/dev/null; then
    echo "skipped: the attacks take root, and mount and PID namespaces (unshare)"
    exit 77
  fi
  export DIVVY_ATTACKED=1
  exec $enter sh -ec '
    mount -t tmpfs -o mode=755 run /run
    mount -t tmpfs -o mode=755 lib /var/lib
    cp -a /etc /run/etc
    mount --bind /run/etc /etc
    exec "$@"' sh "$0" "$@"
fi
# The users must be able to reach the program, and have a home that a job with a /tmp of its own sees as well.
install -d -m 755 /var/lib/bin /var/lib/home /etc/divvy
install -d -m 1777 /var/lib/tmp
install -m 755 "$DIVVY" /var/lib/bin/divvy
for user in alice:61001 bob:61002; do
  id=${user#*:} name=${user%:*}
  printf '%s:x:%s:%s::/var/lib/home/%s:/bin/sh\n' "$name" "$id" "$id" "$name" >>/etc/passwd
  printf '%s:x:%s:\n' "$name" "$id" >>/etc/group
  install -d -m 700 -o "$id" -g "$id" "/var/lib/home/$name"
done
export DIVVY=/var/lib/bin/divvy TMPDIR=/var/lib/tmp
. "$attacks/../lib.sh"
rmdir "$DIVVY_HOME"
unset DIVVY_HOME
cd /var/lib/tmp

fail() {
  echo "FAILED: $*" >&2
  divvy queue --all >&2 || true
  cat /var/lib/divvy/daemon.log >&2 || true
  exit 1
}
# as USER COMMAND...: a command of the user, with none of root's rights, in the user's home directory.
as() {
  local user=$1
  shift
  (cd "/var/lib/home/$user" && exec setpriv "--reuid=$user" "--regid=$user" --clear-groups --inh-caps=-all \
    env "HOME=/var/lib/home/$user" "USER=$user" "$@")
}
# script_of USER NAME: an executable file in the user's home directory, from standard input.
script_of() {
  cat >"/var/lib/home/$1/$2"
  chown "$1:$1" "/var/lib/home/$1/$2"
  chmod 755 "/var/lib/home/$1/$2"
}
# serve [LINE...]: the root daemon of the machine, on four stand-in GPUs, with these lines as divvy.toml.
serve() {
  printf '%s\n' "$@" >/etc/divvy/divvy.toml
  divvy up --quiet --emulate 4xA100-40GB
}
# log_by_api USER JOB: what the daemon answers the user who asks for a job's log. Other than `divvy logs`, which opens a file itself
# where it can, this makes the daemon read it.
log_by_api() { as "$1" curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$2/log?at=0"; }
# first_process JOB: the pid of the job's first process.
first_process() { sed -n 's/^process=\([0-9]*\) .*/\1/p' "/var/lib/divvy/runs/$1"; }
