#!/usr/bin/env bash
# The store is lost, emptied, put back or restored from an older backup, at random times under load. Four clients submit
# jobs (plain ones, arrays, retries) that take 0 to 1500 ms and have different exit codes. In each round the daemon is
# ended (kill -9 or divvy down), and one of these happens before it starts again:
#
#   empty     the store is moved aside, and the daemon starts without one
#   back      the store that was moved aside last replaces the present one
#   backup    the store is copied
#   restore   the newest copy replaces the present store
#
# Runs that the store does not know are adopted, immediately or some rounds later.
#
# At the end, no job that had started was disturbed: each ended by itself. No job ran more often than its retries allow,
# no GPU had two owners, no id was given to two jobs, and every job that the last store knows has its own exit code.
# Each job appends a line to one file when it starts and one when it ends, so the lines are the truth, independent of
# divvy. Waiting jobs that a store has lost have no lines and are not checked.
#
#   ROUNDS=6 SEED=1 store_lost.sh      DIVVY_LONG=1: 50 rounds.
. "$(dirname "$0")/lib.sh"
clients=
trap 'kill $clients 2>/dev/null || true; divvy adopt --all >/dev/null 2>&1 || true; clean_up' EXIT
rounds=${ROUNDS:-$([ -n "${DIVVY_LONG:-}" ] && echo 50 || echo 6)}
seed=${SEED:-$((RANDOM + 1))}
RANDOM=$seed
echo "store_lost: seed $seed, $rounds rounds"

fail() {
  echo "FAILED: $* (in $DIVVY_HOME)" >&2
  { cat strikes verdict; tail -n 40 "$DIVVY_HOME/daemon.log"; divvy adopt; divvy queue; } >&2 2>/dev/null || true
  [ -z "${KEEP:-}" ] || trap - EXIT
  exit 1
}

cat >job <<'EOS'
#!/bin/sh
# TOKEN CODE SLEEP FAILURES: fails FAILURES times before it ends with CODE.
me="$1 ${DIVVY_ARRAY_INDEX:--} $DIVVY_JOB_ID ${CUDA_VISIBLE_DEVICES:--} $(($2 + ${DIVVY_ARRAY_INDEX:-0})) $4"
echo "+ $me" >>"$DIVVY_HOME/stamps"
[ "$3" = 0 ] || sleep "$3"
echo "- $me" >>"$DIVVY_HOME/stamps"
[ "$DIVVY_RESTARTS" -ge "$4" ] || exit 99
exit $(($2 + ${DIVVY_ARRAY_INDEX:-0}))
EOS
chmod +x job
: >stamps

# client NUMBER: submits until the file "stop" exists. Writes "TOKEN ID" lines to "acknowledged".
client() {
  local number=0 id code seconds token options failures
  RANDOM=$((seed * 10 + $1))
  while [ ! -e stop ]; do
    number=$((number + 1)) token=$1.$number code=$((RANDOM % 80 + 1)) failures=0
    seconds=$(printf '%d.%03d' $((RANDOM % 4 / 3)) $((RANDOM % 500)))
    case $((RANDOM % 8)) in
      0) options="--gpus 0" ;;
      1) options="--gpus 2" ;;
      2) options="--gpus 1 --array 0-2" ;;
      3) options="--gpus 1 --retries 2 --retry-delay 0s" failures=2 ;;
      *) options="--gpus 1" ;;
    esac
    if id=$(divvy submit --quiet $options -- ./job "$token" "$code" "$seconds" "$failures" 2>/dev/null); then
      echo "$token $id"
    fi
    sleep "0.1$((RANDOM % 90 + 10))"
  done >>"acknowledged.$1"
}
is_acknowledged() { cat acknowledged.* | grep -q .; }
is_gone() { ! grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status"; }

end_daemon() {
  daemon=$(daemon_pid)
  if [ $((RANDOM % 3)) = 0 ]; then divvy down >/dev/null; else kill -9 "$daemon"; fi
  wait_for "the daemon's end" is_gone "$daemon"
}
# move_aside: as described in docs/store.md.
move_aside() {
  aside=$(mktemp -d -p "$DIVVY_HOME" aside.XXXXXX)
  mv "$DIVVY_HOME"/divvy.db* "$aside"
}
strike() {
  local kind=$1 before=$aside
  case $kind in
    back) [ -n "$aside" ] || kind=empty ;;
    restore) [ -e copy ] || kind=backup ;;
  esac
  end_daemon
  case $kind in
    empty) move_aside ;;
    back)
      move_aside
      cp "$before"/divvy.db* "$DIVVY_HOME"
      ;;
    backup)
      rm -rf copy
      mkdir copy
      cp "$DIVVY_HOME"/divvy.db* copy
      ;;
    restore)
      move_aside
      cp copy/divvy.db* "$DIVVY_HOME"
      ;;
  esac
  divvy up --quiet --emulate 8xH100-80GB || fail "no restart after $kind"
  echo "$kind $(divvy adopt --csv --no-header | wc -l)" >>strikes
  [ $((RANDOM % 4)) = 0 ] || divvy adopt --all >>adopted 2>&1 || fail "cannot adopt: $(tail -n 3 adopted)"
}

divvy up --quiet --emulate 8xH100-80GB
aside=
for client in 1 2 3 4; do
  client $client &
  clients="$clients $!"
done
wait_for "the first acknowledged job" is_acknowledged
kinds=(empty back backup restore restore)
for _ in $(seq "$rounds"); do
  sleep "$(printf '0.%03d' $((RANDOM % 900 + 100)))"
  strike "${kinds[RANDOM % 5]}"
done
touch stop
wait $clients
divvy adopt --all >>adopted 2>&1 || fail "cannot adopt: $(tail -n 3 adopted)"
wait_for "an empty queue" queue_is_empty
divvy queue --all --csv --no-header -o id,state,exit --limit 0 | tr ',' ' ' >known
cat acknowledged.* >acknowledged

# Prints one line for each violation, and nothing otherwise.
awk '
  function wrong(text) { print text; count++ }
  FILENAME == "acknowledged" {
    if (($2 in owner_of) && owner_of[$2] != $1) wrong("id " $2 " was given to " owner_of[$2] " and to " $1)
    owner_of[$2] = $1
    acknowledged++
    next
  }
  FILENAME == "stamps" {
    run = $2 " " $3
    if (($4 in run_of) && run_of[$4] != run) wrong("id " $4 " was given to " run_of[$4] " and to " run)
    run_of[$4] = run; code[$4] = $6; failures[$4] = $7
    if ($1 == "+") starts[run]++; else ends[run]++
    allowed[run] = $7 + 1
    ends_of[$4] = ends[run]
    gpus = split($5, gpu, ",")
    for (i = 1; i <= gpus && $5 != "-"; i++) {
      if ($1 == "+") {
        if (gpu[i] in owner) wrong("GPU " gpu[i] " was given to job " $4 " while job " owner[gpu[i]] " had it")
        owner[gpu[i]] = $4
      } else if (owner[gpu[i]] == $4) delete owner[gpu[i]]
    }
    next
  }
  FILENAME == "known" {
    # Elements are listed by array and index; their exit codes are checked by their runs.
    if (!($1 in run_of)) next
    known++
    # An adopted job is not retried.
    wanted = ends_of[$1] > failures[$1] ? code[$1] : 99
    if ($3 != wanted) wrong("job " $1 " (" run_of[$1] ") is " $2 " with " $3 ", ended with " wanted)
  }
  END {
    for (run in starts) {
      jobs++
      if (starts[run] > allowed[run]) wrong(run " began " starts[run] " times, at most " allowed[run] " were asked for")
      if (ends[run] != starts[run]) wrong(run " began " starts[run] " times and ended " ends[run] + 0 " times")
    }
    printf "store_lost: %d acknowledged, %d ran, %d known to the last store with their exit codes, %d wrong\n", acknowledged, jobs, known, count
    exit count > 0 || jobs == 0 || known == 0
  }' acknowledged stamps known >verdict || fail "the above"
sort strikes | awk '{ kinds[$1]++; found[$1] += $2 } END { for (kind in kinds) printf "  %-8s %3d rounds, %4d runs found that the store did not know\n", kind, kinds[kind], found[kind] }'
tail -n 1 verdict
