# Sourced by the attack tests: a machine of its own (in namespaces) with a real root daemon and two ordinary users,
# alice and bob. alice is the attacker, bob the victim. A test fails on the release in which its attack was found:
#   DIVVY=/path/of/old/divvy tests/e2e/attacks/NAME.sh
# ATTACK_TRACE=1 shows each command.
set -eu; [ -z "${ATTACK_TRACE:-}" ] || set -x
attacks=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$attacks/../machine_lib.sh"
# The users have homes that are also visible in a job with a private /tmp.
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

# end_jobs: cancels all jobs of all users and waits for their end.
end_jobs() {
  for user in alice bob; do divvy cancel --user "$user" --grace 0 >/dev/null 2>&1 || true; done
  wait_for "the end of all jobs" queue_is_empty
}
# The processes end with the PID namespace. Supervisors remove the jobs' files in the host's /tmp.
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
# as USER COMMAND...: runs a command as the user, without any of root's privileges, in the user's home directory.
as() {
  local user=$1
  shift
  (cd "/var/lib/home/$user" && exec setpriv "--reuid=$user" "--regid=$user" --clear-groups --inh-caps=-all \
    env "HOME=/var/lib/home/$user" "USER=$user" "$@")
}
# script_of USER NAME: creates an executable file in the user's home directory from standard input.
script_of() {
  cat >"/var/lib/home/$1/$2"
  chown "$1:$1" "/var/lib/home/$1/$2"
  chmod 755 "/var/lib/home/$1/$2"
}
# serve [LINE...]: starts the root daemon of the machine with four emulated GPUs; the lines become divvy.toml.
serve() {
  printf '%s\n' "$@" >/etc/divvy/divvy.toml
  divvy up --quiet --emulate 4xA100-40GB
}
# log_by_api USER JOB: prints the daemon's answer to a user who requests a job's log. `divvy logs` opens a file itself
# if it can; this makes the daemon read it.
log_by_api() { as "$1" curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$2/log?at=0"; }
# first_process JOB: prints the pid of the job's first process.
first_process() { sed -n 's/^process=\([0-9]*\) .*/\1/p' "/var/lib/divvy-launcher/runs/$1"; }
# take_lines: starts a root service at /run/journal that acts as the journal. It writes uid and text of each line to
# /var/lib/tmp/journal.
take_lines() {
  /usr/bin/python3 "$attacks/journal.py" >/var/lib/tmp/journal &
  wait_for "the journal" test -S /run/journal
}
