#!/usr/bin/env bash
# A lost store from the user's view: the recovery steps of docs/store.md on one server, and for a node whose controller
# starts with a new store.
. "$(dirname "$0")/lib.sh"
port=
up_listening
with_machines
trap 'divvy adopt --all >/dev/null 2>&1 || true; clean_up; end_agents; rm -rf "$machines"' EXIT

join() {
  divvy token create --node --uses 9 >many.token 2>/dev/null
  on n1 agent --join-file "$DIVVY_HOME/many.token" --name n1 --emulate 2xA100-40GB --detach --quiet || fail "n1 did not join"
}
pid_of() { divvy show "$1" --json | grep -oE '"pid":[0-9]+' | head -n 1 | cut -d: -f2; }
has_stamp() { grep -qx "$1" "$DIVVY_HOME/stamps"; }
found() { divvy adopt --csv --no-header -o id,state | tr '\n' ' '; }
found_is() { [ "$(found)" = "$1" ]; }
replace_store() { # replace_store [FOLDER]: replaces the store by the one in FOLDER, or by an empty one.
  divvy down >/dev/null
  aside=$(mktemp -d -p "$DIVVY_HOME" aside.XXXXXX)
  mv "$DIVVY_HOME"/divvy.db* "$aside"
  [ $# = 0 ] || cp "$1"/divvy.db* "$DIVVY_HOME"
  divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$port" || fail "no restart"
}
cat >job <<'EOS'
#!/bin/sh
# NAME FOLDER CODE: runs until the file NAME.go exists.
echo "+$1" >>"$2/stamps"
while [ ! -e "$2/$1.go" ]; do sleep 0.02; done
echo "-$1" >>"$2/stamps"
exit $3
EOS
chmod +x job
: >stamps
join

# Two jobs run here and one on the node. Then the store is lost.
one=$(divvy submit --quiet --gpus 1 --retries 2 --nodelist "$(hostname)" -- "$PWD/job" one "$PWD" 3)
two=$(divvy submit --quiet --gpus 1 --nodelist "$(hostname)" -- "$PWD/job" two "$PWD" 4)
far=$(divvy submit --quiet --gpus 1 --nodelist n1 -- "$PWD/job" far "$PWD" 5)
for name in one two far; do wait_for "the start of $name" has_stamp "+$name"; done
on n1 agent --stop >/dev/null 2>&1 || true
replace_store
first=$aside
found_is "$one,running $two,running " || fail "found: $(found)"
grep -q "event=found_run job=$one .*gpus=" daemon.log || fail "the log does not name job $one"
divvy status | grep -q "job $one of .* runs on GPU .*divvy adopt $one takes it over" || fail "status: $(divvy status)"
[ "$(divvy gpus --csv --no-header -o state | sort | uniq -c | tr -s ' ')" = " 2 unmanaged" ] || fail "gpus: $(divvy gpus)"
fresh=$(divvy submit --quiet --gpus 1 -- true)
[ "$fresh" -gt "$far" ] || fail "id $fresh was given out again"
state_is "$fresh" queued || fail "it runs on a GPU that another job has"

# The node joins again. Its job continues undisturbed as well.
join
wait_for "the run on n1" found_is "$one,running $two,running $far,running "
divvy adopt "$one" "$far" >out || fail "cannot adopt: $(cat out)"
state_is "$one" running || fail "$one is $(field "$one" state)"
touch one.go far.go
expect 3 "$(divvy wait "$one" >/dev/null 2>&1; echo $?)" "exit code of an adopted job"
expect 5 "$(divvy wait "$far" >/dev/null 2>&1; echo $?)" "exit code of an adopted job on a node"
expect "" "$(divvy adopt "$one" 2>/dev/null)" "what adopting it twice says"
wait_for "the job that waited" state_is "$fresh" succeeded

# The old store is put back: it learns what has happened, and starts nothing.
replace_store "$first"
expect failed "$(field "$one" state)" "state of the first job"
expect 3 "$(field "$one" exit_code)" "its exit code"
expect 5 "$(field "$far" exit_code)" "exit code of the job on the node"
state_is "$two" running || fail "$two is $(field "$two" state)"
touch two.go
expect 4 "$(divvy wait "$two" >/dev/null 2>&1; echo $?)" "exit code of the job that nobody adopted"

# A run that is not wanted is ended by its name.
three=$(divvy submit --quiet --gpus 1 --nodelist "$(hostname)" -- "$PWD/job" three "$PWD" 0)
wait_for "its start" has_stamp +three
replace_store
found_is "$three,running " || fail "found: $(found)"
divvy adopt --end "$three" >out || fail "cannot end it: $(cat out)"
wait_for "its end" found_is ""
divvy show "$three" >/dev/null 2>&1 && fail "it became a job"
expect "+far +one +three +two -far -one -two" "$(LC_ALL=C sort stamps | tr '\n' ' ' | sed 's/ $//')" "starts and ends"
