#!/usr/bin/env bash
# The Python package: builds the wheel, installs it into an empty environment and runs the example of its README. Then
# runs the package's own tests, if pytest is installed. Nothing needs the network: the wheel is built with the standard
# library (clients/python/wheel_builder.py) and depends on nothing.
package=$(cd "$(dirname "$0")/../../clients/python" && pwd)
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "needs python3"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "needs Python 3.9 or later, this is $(python3 --version)"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "needs Python's venv and ensurepip (Debian: python3-venv)"
divvy up --quiet --emulate 8xH100-80GB
export XDG_DATA_HOME=$DIVVY_HOME/data

wheel=$(python3 "$package/wheel_builder.py" "$DIVVY_HOME/dist")
again=$(python3 "$package/wheel_builder.py" "$DIVVY_HOME/again")
cmp "$wheel" "$again" || fail "two builds of the wheel differ"
python3 -m venv "$DIVVY_HOME/empty"
"$DIVVY_HOME/empty/bin/python" -m pip install --quiet --no-index --disable-pip-version-check "$wheel" >pip.log 2>&1 ||
  fail "pip: $(cat pip.log)"
"$DIVVY_HOME/empty/bin/python" -m pip --disable-pip-version-check show divvy | grep -q '^Requires: *$' ||
  fail "the package depends on others"

# The example is the first block of the README, and has ten lines of code.
awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$package/README.md" >example.py
[ "$(grep -c . example.py)" -le 10 ] || fail "the README's example has more than ten lines"
"$DIVVY_HOME/empty/bin/python" example.py >printed || fail "the README's example failed: $(cat printed)"
grep -qE "^1 (queued|starting|running|succeeded) " printed || fail "it printed: $(cat printed)"
expect "{'lr': 0.001, 'loss': 10.0} {'lr': 0.01, 'loss': 1.0}" "$(tail -n 2 printed | xargs -d '\n')" "the example's results"
expect "" "$(divvy queue --all --json | grep -oE '"state":"[a-z]*"' | grep -v succeeded || true)" "jobs that did not succeed"

# pip builds the same from the sources, with no network.
"$DIVVY_HOME/empty/bin/python" -m pip wheel --quiet --no-index --no-deps --disable-pip-version-check -w pip-built \
  "$package" >pip.log 2>&1 || fail "pip wheel: $(cat pip.log)"
cmp "$wheel" pip-built/*.whl || fail "pip's wheel differs"

if python3 -c 'import pytest' 2>/dev/null; then
  # In a folder of its own, because jobs write their output where they were submitted.
  mkdir "$DIVVY_HOME/tests"
  (cd "$DIVVY_HOME/tests" && DIVVY=$divvy_binary PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 python3 -m pytest -q \
    -p no:cacheprovider --basetemp "$DIVVY_HOME/pytest" --rootdir "$package" "$package/tests") || fail "the package's tests"
else
  echo "python: the package's own tests are left out, because pytest is not installed"
fi
echo "python: passed"
