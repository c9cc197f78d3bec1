# Sourced by tests of the system-wide daemon. Runs the test in a mount namespace and a PID namespace: /etc is a copy,
# /run and /var/lib are empty file systems in memory. So a test needs nothing on the host and leaves nothing behind, not
# even a process. Needs root, otherwise the test is skipped (77).
if [ -z "${DIVVY_MACHINE_MADE:-}" ]; then
  : "${DIVVY:?path of the divvy to test}"
  enter="unshare --mount --pid --fork --kill-child --mount-proc"
  if [ "$(id -u)" != 0 ] || ! $enter true 2>/dev/null; then
    echo "skipped: a machine of its own takes root, and mount and PID namespaces (unshare)"
    exit 77
  fi
  export DIVVY_MACHINE_MADE=1
  exec $enter sh -ec '
    mount -t tmpfs -o mode=755 run /run
    mount -t tmpfs -o mode=755 lib /var/lib
    cp -a /etc /run/etc
    mount --bind /run/etc /etc
    exec "$@"' sh bash "$0" "$@"
fi
# Users must be able to reach the program.
install -d -m 755 /var/lib/bin /etc/divvy
install -d -m 1777 /var/lib/tmp
install -m 755 "$DIVVY" /var/lib/bin/divvy
[ ! -e "$(dirname "$DIVVY")/divvy-burn" ] || install -m 755 "$(dirname "$DIVVY")/divvy-burn" /var/lib/bin/divvy-burn
export DIVVY=/var/lib/bin/divvy TMPDIR=/var/lib/tmp

# test_on_machine: runs a test that was written for a private daemon with the system-wide daemon, which starts jobs of
# root. Files that such a test expects in $DIVVY_HOME are links there; divvy's commands do not see that variable.
test_on_machine() {
  unset DIVVY_HOME
  DIVVY_HOME=/var/lib/tmp/work
  runs=/var/lib/divvy-launcher/runs
  mkdir -p "$DIVVY_HOME" /var/lib/bin/real
  local name
  for name in daemon.log logs divvy.db divvy.db-wal audit.log runs.journal samples.db daemon.lock slurm; do ln -s "/var/lib/divvy/$name" "$DIVVY_HOME/$name"; done
  ln -s "$runs" /var/lib/divvy-launcher/emulate "$DIVVY_HOME"
  ln -s /run/divvy/divvy.sock "$DIVVY_HOME/divvy.sock"
  ln -s "$DIVVY_HOME/divvy.toml" /etc/divvy/divvy.toml
  printf '[jobs]\nroot_jobs = true\n' >"$DIVVY_HOME/divvy.toml"
  mv /var/lib/bin/divvy /var/lib/bin/divvy-burn /var/lib/bin/real
  ln -s real/divvy-burn /var/lib/bin/divvy-burn
  cat >/var/lib/bin/divvy <<'W'
#!/bin/sh
if [ "${1:-}" = up ] && [ -z "${DIVVY_HOME:-}" ] && ! grep -qs root_jobs /etc/divvy/divvy.toml; then
  toml=$(readlink -f /etc/divvy/divvy.toml)
  grep -q '^\[jobs\]' "$toml" || echo '[jobs]' >>"$toml"
  sed -i 's/^\[jobs\]/[jobs]\nroot_jobs = true/' "$toml"
fi
exec /var/lib/bin/real/divvy "$@"
W
  chmod 755 /var/lib/bin/divvy
}
