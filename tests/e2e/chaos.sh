#!/usr/bin/env bash
# Kills all of divvy's processes with kill -9 at random times, under load. Four clients submit jobs (with no, one or two
# GPUs, arrays, retries) that take 0 to 300 ms and have different exit codes, and record what was acknowledged.
# Meanwhile the test kills:
#
#   daemon, launcher, a supervisor, all supervisors, all guards, "the rest" (daemon, launcher and supervisors at once),
#   and in a second part "all": the rest and the guards, which belong to the jobs.
#
# At the end, every acknowledged job must be known, have its own exit code and have run exactly as often as it should.
# No GPU may have had two owners at any time, and no id may have been given out twice. A job may be "lost" instead if
# every process that could have seen its end was killed: the supervisor and the guard above it that the job found when
# it started (docs/supervisor.md). Each job appends a line to one file when it starts and one when it ends, so the order
# of the lines is the truth, independent of divvy.
#
#   KILLS=6 SEED=1 chaos.sh      DIVVY_LONG=1: 200 kills.
. "$(dirname "$0")/lib.sh"
kills=${KILLS:-$([ -n "${DIVVY_LONG:-}" ] && echo 200 || echo 6)}
RANDOM=${SEED:-$((RANDOM % 1000 + 1))}
echo "chaos: seed ${SEED:-random}, $kills kills"

fail() {
  echo "FAILED: $* (in $DIVVY_HOME)" >&2
  { tail -n 40 strikes verdict "$DIVVY_HOME/daemon.log" || true; divvy queue || true; } >&2 2>/dev/null
  exit 1
}

export STAMPS=$DIVVY_HOME/stamps
cat >job <<'EOS'
#!/bin/sh
# TOKEN CODE SLEEP FAILURES: fails FAILURES times before it ends with CODE. `watchers` are the processes that can see
# its end: its supervisor and the guard above it, or only the guard if it has taken over. A parent whose /proc file
# cannot be read was just killed.
while :; do
  read -r _ _ _ pid _ <"/proc/$$/stat"
  read -r _ name _ above _ <"/proc/$pid/stat" && break
done 2>/dev/null
case $name in
  "(job-guard)") watchers=$pid ;;
  "(divvy-job-"*)
    watchers=$pid name=
    read -r _ name _ <"/proc/$above/stat" || true
    [ "$name" != "(job-guard)" ] || watchers=$watchers,$above
    ;;
  *) watchers=- ;;
esac 2>/dev/null
me="$1 ${DIVVY_ARRAY_ID:-$DIVVY_JOB_ID}${DIVVY_ARRAY_INDEX:+_$DIVVY_ARRAY_INDEX} $DIVVY_JOB_ID ${CUDA_VISIBLE_DEVICES:--}"
echo "+ $me $watchers" >>"$STAMPS"
[ "$3" = 0 ] || sleep "$3"
echo "- $me" >>"$STAMPS"
[ "$DIVVY_RESTARTS" -ge "$4" ] || exit 99
exit $(($2 + ${DIVVY_ARRAY_INDEX:-0}))
EOS
chmod +x job
: >stamps

# client NUMBER: submits until the file "stop" exists. Writes "DISPLAY_ID CODE RUNS" lines to "acknowledged".
client() {
  local number=0 id code seconds token options failures elements
  RANDOM=$((${SEED:-1} * 10 + $1))
  while [ ! -e stop ]; do
    number=$((number + 1)) token=$part.$1.$number code=$((RANDOM % 80 + 1)) failures=0 elements=0
    seconds=$(printf '0.%03d' $((RANDOM % 300)))
    [ $((RANDOM % 3)) != 0 ] || seconds=0
    case $((RANDOM % 10)) in
      0) options="--gpus 0" ;;
      1 | 2) options="--gpus 2" ;;
      3) options="--gpus 1 --array 0-2" elements=3 ;;
      4) options="--gpus 1 --retries 2 --retry-delay 0s" failures=2 ;;
      *) options="--gpus 1" ;;
    esac
    if id=$(divvy submit --quiet $options -- ./job "$token" "$code" "$seconds" "$failures" 2>/dev/null); then
      if [ $elements = 0 ]; then
        echo "$id $code $((failures + 1))"
      else
        for element in 0 1 2; do echo "${id}_$element $((code + element)) 1"; done
      fi
    fi
    sleep "0.1$((RANDOM % 90 + 10))"
  done >>"acknowledged.$1"
}

# pids_of KIND...: lists this daemon's own processes. A child of a supervisor that has not yet become the job's program
# looks like a supervisor, but has its own session: it is the job.
pids_of() {
  local wanted="$*" pids
  pids=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v wanted=" $wanted " -v machine="${DIVVY_ON_MACHINE:-}" '
    { name = substr($2, 2, length($2) - 2); names[$1] = name; parent[$1] = $4; session[$1] = $6 }
    END {
      for (pid in names) {
        name = names[pid]
        kind = name == (machine ? "divvy-launches" : "divvy-launcher") ? "launcher" : name == "job-guard" ? "guard" : name ~ /^divvy-(job|idle)/ ? "supervisor" : ""
        if (kind == "supervisor" && (session[pid] == pid || names[parent[pid]] ~ /^divvy-job/)) kind = ""
        if (kind != "" && index(wanted, " " kind " ")) print "/proc/" pid "/cwd"
      }
    }')
  [ -z "$pids" ] || find $pids -maxdepth 0 -lname "$runs" -printf '%h\n' 2>/dev/null | cut -d/ -f3
}
chance() { sleep "$(printf '0.%03d' $((RANDOM % $1)))"; }

# strike KIND
strike() {
  local pids= with_daemon=
  case $1 in
    daemon) with_daemon=1 ;;
    launcher) pids=$(pids_of launcher) ;;
    supervisor) pids=$(pids_of supervisor | shuf -n 1 --random-source=<(yes $RANDOM)) ;;
    supervisors) pids=$(pids_of supervisor) ;;
    guards) pids=$(pids_of guard) ;;
    rest) pids=$(pids_of launcher supervisor) with_daemon=1 ;;
    all) pids=$(pids_of launcher supervisor guard) with_daemon=1 ;;
  esac
  [ -z "$with_daemon" ] || pids="$daemon $pids"
  kill -9 $(shuf -e $pids --random-source=<(yes $RANDOM)) 2>/dev/null || true
  echo x $pids >>stamps
  echo "$1: $(wc -w <<<"$pids")" >>strikes
  [ -n "$with_daemon" ] || return 0
  chance 400
  divvy up --quiet --emulate 8xH100-80GB || fail "no restart"
  daemon=$(daemon_pid)
}

is_acknowledged() { cat acknowledged.* | grep -q .; }

# run_part NAME COUNT KIND...: runs the load and COUNT kills, and waits for the end of all jobs.
run_part() {
  part=$1
  local count=$2 clients= client
  shift 2
  rm -f stop
  for client in 1 2 3 4; do
    client $client &
    clients="$clients $!"
  done
  wait_for "the first acknowledged job" is_acknowledged
  for _ in $(seq "$count"); do
    sleep 0.2
    chance 700
    local kinds=("$@")
    strike "${kinds[RANDOM % $#]}"
  done
  touch stop
  wait $clients
  wait_for "an empty queue" queue_is_empty
  cat acknowledged.* >"$part.acknowledged"
  rm acknowledged.*
  [ -s "$part.acknowledged" ] || fail "nothing was acknowledged"
}

divvy up --quiet --emulate 8xH100-80GB
daemon=$(daemon_pid)
run_part first $((kills - kills / 6)) daemon launcher supervisor supervisors guards rest
run_part second $((kills / 6)) all
divvy queue --all --csv --no-header -o id,state,exit --limit 0 | tr ',' ' ' >known

# Prints one line for each violation, and nothing otherwise.
awk '
  function wrong(text) { print text; wrongs++ }
  # Returns 1 if no process was left that could see the end of the last run of the job.
  function could_be_lost(job,    pids, count, i) {
    if (!(job in watchers)) return 0
    count = split(watchers[job], pids, ",")
    for (i = 1; i <= count; i++) if (pids[i] != "-" && !((job, pids[i]) in unseen)) return 0
    return 1
  }
  FILENAME == "known" { state[$1] = $2; code[$1] = $3; next }
  # A kill. A job that it hit may write its first line afterwards. Much later, the pid may belong to another process.
  FILENAME == "stamps" && $1 == "x" {
    strikes++
    for (i = 2; i <= NF; i++) {
      struck[$i] = strikes
      if ($i in watched) unseen[watched[$i], $i] = 1
    }
    next
  }
  FILENAME == "stamps" {
    job = $3
    if ($1 == "+") {
      watchers[job] = $6
      count = split($6, pids, ",")
      for (i = 1; i <= count; i++) {
        watched[pids[i]] = job
        delete unseen[job, pids[i]]
        if ((pids[i] in struck) && strikes - struck[pids[i]] <= 1) unseen[job, pids[i]] = 1
      }
    }
    if (($4 in token) && token[$4] != $2) wrong("id " $4 " was given to " token[$4] " and to " $2)
    token[$4] = $2
    if ($1 == "+") starts[job]++; else ends[job]++
    gpus = split($5, gpu, ",")
    for (i = 1; i <= gpus && $5 != "-"; i++) {
      if ($1 == "+") {
        if (gpu[i] in owner) wrong("GPU " gpu[i] " was given to job " job " while job " owner[gpu[i]] " had it")
        owner[gpu[i]] = job
      } else if (owner[gpu[i]] == job) delete owner[gpu[i]]
    }
    next
  }
  {
    if (seen[$1]++) wrong("id " $1 " was given out twice")
    acknowledged++
    if (!($1 in state)) { wrong("acknowledged job " $1 " is unknown"); next }
    if (state[$1] == "lost" && could_be_lost($1)) { lost++; next }
    if (state[$1] == "lost" || code[$1] != $2) wrong("job " $1 " is " state[$1] " with " code[$1] ", should have ended with " $2)
    if (starts[$1] != $3 || ends[$1] != $3) wrong("job " $1 " began " starts[$1] + 0 " times and ended " ends[$1] + 0 " times, should be " $3)
  }
  END {
    for (job in starts) if (starts[job] > 3 || ends[job] != starts[job]) wrong("job " job " began " starts[job] " times and ended " ends[job] + 0 " times")
    printf "chaos: %d acknowledged, %d of them lost with their guards, %d wrong\n", acknowledged, lost, wrongs
    exit wrongs > 0
  }' known stamps first.acknowledged second.acknowledged >verdict || {
  fail "the above"
}
sort strikes | awk '{ kinds[$1]++; pids[$1] += $2 } END { for (kind in kinds) printf "  %-13s %4d strikes, %5d processes\n", kind, kinds[kind], pids[kind] }'
tail -n 1 verdict
