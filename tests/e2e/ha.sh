#!/usr/bin/env bash
# The short form of scripts/test-ha: several controllers on one PostgreSQL database.
set -u
DIVVY=${DIVVY:?path of the divvy to test}
export DIVVY DIVVY_NO_INSTALL=1
skip() {
  echo "skipped: $*"
  exit 77
}
command -v python3 >/dev/null || skip "python3 is not installed"
for place in "${DIVVY_POSTGRES:-}" "$(dirname "$0")/../../build/unpacked/usr/lib/postgresql/15/bin" /usr/lib/postgresql/15/bin; do
  [ -z "$place" ] || [ ! -x "$place/initdb" ] || exec "$(dirname "$0")/../../scripts/test-ha" --short
done
skip "needs Debian's package postgresql-15; scripts/test unpacks it"
