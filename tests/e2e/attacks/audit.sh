#!/usr/bin/env bash
# The audit log after it was modified: divvy audit verify names the line.
. "$(dirname "$0")/lib.sh"
serve
log=/var/lib/divvy/audit.log
for _ in 1 2 3 4; do as alice divvy cancel "$(as alice divvy submit --quiet --hold -- true)" >/dev/null; done
wait_for "an empty queue" queue_is_empty
newest=$(divvy audit verify | sed -n 's/^newest hash: //p')
[ -n "$newest" ] || fail "the log is not good as it was written: $(divvy audit verify 2>&1)"
as alice divvy audit verify >/dev/null 2>&1 && fail "alice reads the audit log"
cp $log log
# named LINE WHAT: checks that verification of the present log fails at that line.
named() {
  divvy audit verify >verdict 2>&1 && fail "$2 is not found"
  grep -q "line $1: the line is not the original one" verdict || fail "$2: $(cat verdict)"
  cat log >$log
}
sed -i '3s/alice/bob/' $log && named 3 "a changed line"
sed -i 3d $log && named 3 "a removed line"
sed -i '3{h;d};4{G}' $log && named 3 "a moved line"
sed -i '$d' $log
divvy audit verify "$newest" >/dev/null 2>&1 && fail "a removed end is not found by the hash that was newest"
cat log >$log
divvy audit verify "$newest" >/dev/null || fail "the log is not good again: $(divvy audit verify 2>&1)"
# The log continues over a restart.
divvy down >/dev/null
divvy up --quiet --emulate 4xA100-40GB
as alice divvy cancel "$(as alice divvy submit --quiet --hold -- true)" >/dev/null
divvy audit verify "$newest" >/dev/null || fail "the chain is broken by a restart: $(divvy audit verify 2>&1)"
