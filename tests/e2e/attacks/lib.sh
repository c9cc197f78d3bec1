# Sourced by the attack tests: a machine of its own with a real root daemon that serves two ordinary users, alice and bob.
# alice is the attacker, bob the victim. A test fails on the release in which its attack was found:
#   DIVVY=/path/of/old/divvy tests/e2e/attacks/NAME.sh
# ATTACK_TRACE=1 shows each command.
set -eu; [ -z "${ATTACK_TRACE:-}" ] || set -x
attacks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$attacks/../machine_lib.sh"
# The users have a home that a job with a /tmp of its own sees as well.
install -d -m 755 /var/lib/home
for user in alice:61001 bob:61002; do
  id=${user#*:} name=${user%:*}
  printf '%s:x:%s:%s::/var/lib/home/%s:/bin/sh\n' "$name" "$id" "$id" "$name" >>/etc/passwd
  printf '%s:x:%s:\n' "$name" "$id" >>/etc/group
  install -d -m 700 -o "$id" -g "$id" "/var/lib/home/$name"
done
. "$attacks/../lib.sh"
rmdir "$DIVVY_HOME"
unset DIVVY_HOME
cd /var/lib/tmp

# end_jobs: all jobs of all users, and waits for their end.
end_jobs() {
  for user in alice bob; do divvy cancel --user "$user" --grace 0 >/dev/null 2>&1 || true; done
  wait_for "the end of all jobs" queue_is_empty
}
# The processes end with the PID namespace; what jobs have in the host's /tmp is removed by their supervisors.
clean_up() {
  trap - EXIT
  [ ! -e /run/divvy/divvy.sock ] || (WAIT_S=5 end_jobs) || true
  divvy down >/dev/null 2>&1 || true
}
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
first_process() { sed -n 's/^process=\([0-9]*\) .*/\1/p' "/var/lib/divvy-launcher/runs/$1"; }
# take_lines: a service of root's at /run/journal, as the journal is one. /var/lib/tmp/journal has the uid and text of each line.
take_lines() {
  /usr/bin/python3 "$attacks/journal.py" >/var/lib/tmp/journal &
  wait_for "the journal" test -S /run/journal
}
