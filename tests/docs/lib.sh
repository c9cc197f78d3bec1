# Functions for the setup commands of the pages (commands.py). Sourced by the shell of each page.

# wait_for WHAT COMMAND...: repeats the command until it succeeds, for at most 40 s.
wait_for() {
  local what=$1 end=$((SECONDS + 40))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "waited in vain for $what"; return 1; }
    sleep 0.02
  done
}
state_is() { divvy show "$1" --json | grep -q "\"state\":\"$2\""; }
node_is() { divvy nodes --csv | grep -q "^$1,$2,"; }

last_id=0
# next_id ID: uses up ids, so that the next job gets this one.
next_id() {
  local id=$last_id
  while [ "$id" -lt $(($1 - 1)) ]; do id=$(divvy submit --quiet --hold --name unused -- true) || return; done
  divvy cancel --all --name unused --now >/dev/null 2>&1
  last_id=$1
  [ "$id" = $(($1 - 1)) ] || { echo "the next job has id $((id + 1)), not $1"; return 1; }
}
# job ID WORDS...: submits a job that gets this id.
job() { next_id "$1" && divvy submit --quiet "${@:2}"; }
# running_job ID WORDS...: the same, and waits until it runs.
running_job() { job "$@" && wait_for "job $1" state_is "$1" running; }
# in_job OPTIONS COMMANDS: runs the commands as the script of a job.
in_job() {
  printf '#!/bin/bash\n%s' "$2" >"$DOCS_PAGE/in_job"
  chmod +x "$DOCS_PAGE/in_job"
  divvy run $1 "$DOCS_PAGE/in_job"
}

# on_terminal COLUMNS COMMANDS: runs the commands on a terminal of this width.
on_terminal() { script -qec "stty cols $1; $2" /dev/null | tr -d '\r'; }

# fresh WORDS...: starts an empty daemon, whose jobs have ids from 1 on, with these words for `divvy up`.
fresh() {
  divvy cancel --all --now
  wait_for "the end of all jobs" is_idle
  divvy down
  rm -rf "$DIVVY_HOME"
  last_id=0
  divvy up --quiet "$@"
}
# cluster NAME...: starts an empty controller, and these nodes with eight GPUs each.
cluster() {
  local name
  for name; do
    DIVVY_HOME=$DOCS_PAGE/$name "$DOCS_DIVVY" agent --stop
    rm -rf "${DOCS_PAGE:?}/$name"
  done
  fresh --listen 0.0.0.0:7433 && join "$@"
}
# join NAME...: adds these nodes to the controller that runs.
join() {
  divvy token create --node --uses $# >"$DOCS_PAGE/cluster.token" || return
  local name
  for name; do
    DIVVY_HOME=$DOCS_PAGE/$name "$DOCS_DIVVY" agent --join-file "$DOCS_PAGE/cluster.token" --name "$name" \
      --emulate 8xH100-80GB --detach --quiet || return
  done
}
# laptop: the following commands are those of another machine, without a daemon. server: back to this one.
laptop() { export HOME=$DOCS_PAGE/laptop && unset DIVVY_HOME && mkdir -p "$HOME"; }
server() { export HOME=$DOCS_PAGE/home DIVVY_HOME=$DOCS_PAGE/divvy; }

# until_output COMMAND: sends SIGINT after the first output, and prints the output. Fails if the command does.
until_output() {
  rm -f "$DOCS_PAGE/until_output"
  set -m
  bash -c "$1" >"$DOCS_PAGE/until_output" 2>&1 &
  local pid=$! status
  set +m
  wait_for "output of $1" test -s "$DOCS_PAGE/until_output"
  kill -INT -- -$pid 2>/dev/null
  wait $pid 2>/dev/null
  status=$?
  cat "$DOCS_PAGE/until_output"
  [ $status = 0 ] || [ $status = 130 ]
}

# clean_up: ends the page's jobs, agents and daemon.
clean_up() {
  server
  unset DIVVY_CONTROLLER
  "$DOCS_DIVVY" cancel --all --now
  wait_for "the end of all jobs" is_idle
  for home in "$DOCS_PAGE"/n[0-9]; do DIVVY_HOME=$home "$DOCS_DIVVY" agent --stop; done
  "$DOCS_DIVVY" down
}
is_idle() { [ "$("$DOCS_DIVVY" queue --json 2>/dev/null || echo '[]')" = "[]" ]; }
