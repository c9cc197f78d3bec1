#!/usr/bin/env bash
# The system-wide daemon and its users: an owner, another user, and administrators by name and by group. Everything that
# this daemon uses (/etc, /run, /var/lib) is private to the test, in a mount namespace. Needs root, otherwise it is
# skipped (77).
set -eu
if [ -z "${DIVVY_MACHINE:-}" ]; then
  DIVVY_MACHINE=$(mktemp -d)
  export DIVVY_MACHINE
  trap 'rm -rf "$DIVVY_MACHINE"' EXIT
  if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
    echo "skipped: it takes root and a mount namespace (unshare -m)"
    exit 77
  fi
  chmod 755 "$DIVVY_MACHINE"
  # Uses a copy of the program, because the users must be able to reach it.
  cp "${DIVVY:?path of the divvy to test}" "$DIVVY_MACHINE/divvy"
  cp -a /etc "$DIVVY_MACHINE/etc"
  mkdir -p "$DIVVY_MACHINE/etc/divvy"
  export DIVVY="$DIVVY_MACHINE/divvy"
  unshare -m sh -c 'mount --bind "$DIVVY_MACHINE/etc" /etc && mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && exec "$@"' sh "$0" ||
    exit $?
  exit 0
fi
TMPDIR=$DIVVY_MACHINE
. "$(dirname "$0")/lib.sh"
unset DIVVY_HOME
cd "$DIVVY_MACHINE"
trap clean_up EXIT
fail() {
  echo "FAILED: $*" >&2
  divvy queue --all >&2 || true
  cat /var/lib/divvy/daemon.log >&2 || true
  exit 1
}
printf 'ada:x:61001:61001::/:/bin/sh\nbob:x:61002:61002::/:/bin/sh\ncarl:x:61003:61009::/:/bin/sh\n' >>/etc/passwd
printf 'dora:x:61004:61004::/:/bin/sh\neve:x:61005:61005::/:/bin/sh\n' >>/etc/passwd
printf 'ada:x:61001:\nbob:x:61002:\ngpuadmins:x:61009:bob\ndora:x:61004:\n' >>/etc/group
printf '[admin]\nusers = ["dora"]\ngroups = ["no-such-group", "gpuadmins"]\n' >/etc/divvy/divvy.toml
as() {
  local uid gid
  uid=$(id -u "$1") gid=$(id -g "$1")
  shift
  setpriv "--reuid=$uid" "--regid=$gid" --clear-groups "$@"
}
divvy up --quiet --emulate 8xH100-80GB
jobs_of_ada() { as ada divvy submit --quiet --hold -- true; }
ada=$(jobs_of_ada)
expect ada "$(field "$ada" user)" "the owner"

# Another user may look at jobs and do nothing else.
as eve divvy cancel "$ada" >answer 2>&1 && fail "a stranger cancelled somebody's job"
as eve divvy gpus restrict 0 >answer 2>&1 && fail "a stranger restricted the GPUs"
as ada divvy gpus restrict 0 >answer 2>&1 && fail "a user restricted the GPUs"
as eve divvy down >answer 2>&1 && fail "a stranger ended the daemon"
state_is "$ada" held || fail "ada's job is $(field "$ada" state)"

# bob is a member of the group, carl has it as his primary group, and dora is named.
for admin in bob carl dora; do
  job=$(jobs_of_ada)
  as "$admin" divvy cancel "$job" >answer 2>&1 || fail "$admin may not cancel: $(cat answer)"
  state_is "$job" cancelled || fail "what $admin cancelled is $(field "$job" state)"
  as "$admin" divvy gpus restrict 0-3 >answer 2>&1 || fail "$admin may not restrict the GPUs: $(cat answer)"
done
as ada divvy cancel "$ada" >/dev/null || fail "the owner may not cancel"

# eve leads the team of ada's jobs. She may act on them and see them, except script and output, and may do nothing else.
refuses() {
  local words=$1
  shift
  if "$@" >answer 2>&1; then fail "not refused: $*"; fi
  grep -qF "$words" answer || fail "'$*' says: $(cat answer)"
}
audit=/var/lib/divvy/audit.log
divvy teams add vision --user ada --lead eve >/dev/null
printf '#!/bin/sh\necho a secret\n' >script.sh
chmod 755 script.sh
job=$(as ada divvy submit --quiet --hold script.sh)
as eve divvy release "$job" >answer 2>&1 || fail "a lead may not release: $(cat answer)"
wait_for "its end" state_is "$job" succeeded
as eve divvy show "$job" --json >shown
grep -q '"team":"vision"' shown || fail "a lead sees: $(cat shown)"
grep -q 'script script.sh' shown || fail "a lead does not see what runs: $(cat shown)"
grep -q 'a secret' shown && fail "a lead sees the script: $(cat shown)"
as ada divvy show "$job" --json | grep -q 'a secret' || fail "ada does not see her script"
refuses "ermission denied" as eve divvy logs "$job"
if command -v curl >/dev/null; then
  as eve curl -s --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$job/log" >answer
  grep -q "and only the owner may read its log" answer || fail "asked for a log: $(cat answer)"
  grep -F '"user":"eve"' "$audit" | grep -F "/log" | grep -q '"status":403' || fail "no refusal in: $(tail -n 3 "$audit")"
fi
job=$(as ada divvy submit --quiet --hold -- true)
refuses "what they run" as eve divvy update "$job" -- id
as eve divvy update "$job" --priority -1 >answer 2>&1 || fail "a lead may not update: $(cat answer)"
refuses "may not pause" as eve divvy pause "$job"
as eve divvy teams user ada --max-gpus 2 >answer 2>&1 || fail "a lead may not cap: $(cat answer)"
refuses "takes an administrator" as eve divvy teams user bob --max-gpus 2
as eve divvy cancel "$job" >answer 2>&1 || fail "a lead may not cancel: $(cat answer)"
grep -F '"user":"eve"' "$audit" | grep -F /v1/jobs/cancel | grep -q '"status":200' || fail "no cancel in: $(tail -n 3 "$audit")"
grep -F '"user":"eve"' "$audit" | grep -F /v1/teams/users | grep -q '"status":403' || fail "no refusal in: $(tail -n 3 "$audit")"

# Jobs of root need root_jobs = true, and a pool is only for the users that it names.
refuses "root_jobs = true" divvy submit --quiet -- true
divvy down >/dev/null
printf '[jobs]\nroot_jobs = true\n[pools.bobs]\nnodes = "all"\nusers = ["bob"]\n' >>/etc/divvy/divvy.toml
divvy up --quiet --emulate 8xH100-80GB
job=$(divvy submit --quiet -- true)
wait_for "root's job" state_is "$job" succeeded
refuses "pool bobs is for bob, but this job of eve is not theirs" as eve divvy submit --pool bobs -- true
job=$(as bob divvy submit --quiet --pool bobs -- true)
wait_for "bob's job" state_is "$job" succeeded
expect bobs "$(field "$job" pool)" "its pool"
echo "admins: passed"
