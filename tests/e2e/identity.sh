#!/usr/bin/env bash
# One user name with two uids: users are known to other nodes by name only. A job and its output belong to the account
# with that name there, whatever its uid is. The controller's uid is not used if it belongs to another user there. A
# name that the node does not know starts nothing. Everything that controller and agent use (/etc, /run, /var/lib) is
# private to each, in mount namespaces. Needs root, otherwise it is skipped (77).
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
  for machine in head n1; do
    mkdir "$DIVVY_MACHINE/$machine"
    cp -a /etc "$DIVVY_MACHINE/$machine/etc"
    mkdir -p "$DIVVY_MACHINE/$machine/etc/divvy"
  done
  printf 'ada:x:61001:61001::/:/bin/sh\nbob:x:61002:61002::/:/bin/sh\n' >>"$DIVVY_MACHINE/head/etc/passwd"
  printf 'ada:x:61001:\nbob:x:61002:\n' >>"$DIVVY_MACHINE/head/etc/group"
  # On the other node ada has another uid, and her uid on the controller belongs to eve.
  printf 'ada:x:52001:52001::/:/bin/sh\neve:x:61001:61001::/:/bin/sh\n' >>"$DIVVY_MACHINE/n1/etc/passwd"
  printf 'ada:x:52001:\neve:x:61001:\nlab:x:52009:ada\n' >>"$DIVVY_MACHINE/n1/etc/group"
  export DIVVY="$DIVVY_MACHINE/divvy"
  unshare -m sh -c 'mount --bind "$DIVVY_MACHINE/head/etc" /etc && mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && exec "$@"' sh "$0" ||
    exit $?
  exit 0
fi
TMPDIR=$DIVVY_MACHINE
. "$(dirname "$0")/lib.sh"
rmdir "$DIVVY_HOME"
unset DIVVY_HOME
mkdir -m 1777 "$DIVVY_MACHINE/work"
cd "$DIVVY_MACHINE/work"
agent=
trap 'clean_up; [ -z "$agent" ] || kill -9 "$agent" 2>/dev/null || true' EXIT
fail() {
  echo "FAILED: $*" >&2
  divvy queue --all >&2 || true
  cat /var/lib/divvy/daemon.log "$DIVVY_MACHINE/agent.log" >&2 || true
  exit 1
}
as() {
  local uid gid
  uid=$(id -u "$1") gid=$(id -g "$1")
  shift
  setpriv "--reuid=$uid" "--regid=$gid" --clear-groups "$@"
}
port=
up_listening
divvy token create --node >"$DIVVY_MACHINE/token" 2>/dev/null
unshare -m sh -c 'mount --bind "$DIVVY_MACHINE/n1/etc" /etc && mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && exec "$@"' \
  sh divvy agent --join-file "$DIVVY_MACHINE/token" --name n1 --emulate 4xA100-40GB >"$DIVVY_MACHINE/agent.log" 2>&1 &
agent=$!
wait_for "n1" node_is n1 up

# The same job on both nodes.
who='echo "$(id -un) $(id -u) $(id -G)"; touch "made-on-$DIVVY_NODE"'
ended() { divvy wait "$1" >/dev/null 2>&1 || true; }
here=$(as ada divvy submit --quiet -- sh -c 'echo "$(id -un) $(id -u)"')
there=$(as ada divvy submit --quiet --gpus 1 --nodelist n1 -- sh -c "$who")
ended "$here"
ended "$there"
expect "ada 61001" "$(as ada divvy logs "$here")" "who runs the job on the controller's machine"
state_is "$there" succeeded || fail "the job on n1 is $(field "$there" state): $(field "$there" reason)"
expect "ada 52001 52001 52009" "$(as ada divvy logs "$there")" "who runs the job on n1, read by ada from the controller"
expect 52001 "$(stat -c %u made-on-n1)" "whose the file is that it made"
divvy logs "$there" >/dev/null || fail "an administrator cannot read it"
as bob divvy logs "$there" >said 2>&1 && fail "another user read it: $(cat said)"

# A file that the job names is created and read with the permissions of the account there.
mkdir -m 700 private && chown 52001:52001 private
named=$(as ada divvy submit --quiet --gpus 1 --nodelist n1 --output "$PWD/private/out" -- echo named)
ended "$named"
expect named "$(as ada divvy logs "$named")" "the output in a folder that only ada of n1 may enter"
expect 52001 "$(stat -c %u private/out)" "whose it is"

# Commands of the job through the agent's socket act as the controller's ada.
asked=$(as ada divvy submit --quiet --gpus 1 --nodelist n1 -- sh -c 'divvy submit --quiet --hold -- true')
ended "$asked"
child=$(as ada divvy logs "$asked")
expect ada "$(field "$child" user)" "whose the job is that was submitted inside"
as ada divvy cancel "$child" >/dev/null || fail "ada may not cancel it"

# A user without an account there cannot run jobs there.
nobody=$(as bob divvy submit --quiet --gpus 1 --nodelist n1 -- touch bobs)
ended "$nobody"
state_is "$nobody" failed || fail "bob's job on n1 is $(field "$nobody" state)"
field "$nobody" reason | grep -q 'n1 has no user bob' || fail "the reason is: $(field "$nobody" reason)"
[ ! -e bobs ] || fail "it ran all the same"

# Over the controller's restart.
kept=$(as ada divvy submit --quiet --gpus 1 --nodelist n1 -- sh -c "until [ -e $PWD/go ]; do sleep 0.02; done; id -u")
wait_for "its start" state_is "$kept" running
divvy down >/dev/null
up_listening "$port"
wait_for "n1 after the controller's restart" node_is n1 up
touch go
wait_for "its end" state_is "$kept" succeeded
expect 52001 "$(as ada divvy logs "$kept")" "who ran it"
divvy down >/dev/null
echo "identity: users are matched by name"
