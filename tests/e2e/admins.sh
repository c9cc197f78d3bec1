#!/usr/bin/env bash
# The machine's daemon and its users: an owner, a stranger, and administrators by name and by group. Everything that the daemon of the
# machine uses (/etc, /run, /var/lib) is private to this test, in a mount namespace; it takes root, and is skipped (77) otherwise.
set -eu
if [ -z "${DIVVY_MACHINE:-}" ]; then
  DIVVY_MACHINE=$(mktemp -d)
  export DIVVY_MACHINE
  trap 'rm -rf "$DIVVY_MACHINE"' EXIT
  if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
    echo "admins: skipped, it takes root and a mount namespace"
    exit 77
  fi
  chmod 755 "$DIVVY_MACHINE"
  # An own copy of the program, because the users must be able to reach it.
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

# A stranger may look, and nothing else.
as eve divvy cancel "$ada" >answer 2>&1 && fail "a stranger cancelled somebody's job"
as eve divvy gpus restrict 0 >answer 2>&1 && fail "a stranger restricted the GPUs"
as ada divvy gpus restrict 0 >answer 2>&1 && fail "a user restricted the GPUs"
as eve divvy down >answer 2>&1 && fail "a stranger ended the daemon"
state_is "$ada" held || fail "ada's job is $(field "$ada" state)"

# bob is listed in the group, carl's own group it is, dora is named.
for admin in bob carl dora; do
  job=$(jobs_of_ada)
  as "$admin" divvy cancel "$job" >answer 2>&1 || fail "$admin may not cancel: $(cat answer)"
  state_is "$job" cancelled || fail "what $admin cancelled is $(field "$job" state)"
  as "$admin" divvy gpus restrict 0-3 >answer 2>&1 || fail "$admin may not restrict the GPUs: $(cat answer)"
done
as ada divvy cancel "$ada" >/dev/null || fail "the owner may not cancel"
echo "admins: all as they should be"
