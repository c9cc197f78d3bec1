#!/usr/bin/env bash
# A controller and an agent of two releases, in both combinations, and an agent upgrade under a running job. DIVVY_OLD
# is the executable of the other release; skipped (77) without it.
if [ -z "${DIVVY_OLD:-}" ]; then
  echo "skipped: no other release to test with; DIVVY_OLD names its executable (scripts/test-versions builds one)"
  exit 77
fi
. "$(dirname "$0")/lib.sh"
with_machines

# between CONTROLLER AGENT NEXT-AGENT
between() {
  divvy() { "$controller" "$@"; }
  controller=$1
  port=
  up_listening
  rm -rf "${machines:?}"/n1 token
  "$controller" token create --node >token 2>/dev/null
  DIVVY_HOME=$machines/n1 "$2" agent --join-file token --name n1 --emulate 4xA100-40GB --detach --quiet || fail "$2 did not join $1"
  id=$("$controller" submit --quiet --gpu-type a100 --gpus 2 -- sh -c 'echo said; exit 3')
  "$controller" wait "$id" >/dev/null || true
  expect 3 "$(field "$id" exit_code)" "the exit code of $2 under $1"
  expect said "$("$controller" logs "$id")" "its output"
  expect typed "$("$controller" run --gpu-type a100 --gpus 1 -- cat <<<typed)" "the foreground of $2 under $1"
  id=$("$controller" submit --quiet --gpu-type a100 --gpus 1 --tasks 2 -- sh -c 'echo task $RANK')
  "$controller" wait "$id" >/dev/null || true
  expect "task 0 task 1" "$("$controller" logs "$id" | sort | xargs)" "the tasks of $2 under $1"
  # Fields of the API that have a new name: each release reads what the other one writes.
  for gpus in 1..2 0.25; do
    id=$("$2" submit --quiet --hold --gpus "$gpus" -- true)
    for client in "$1" "$2"; do
      "$client" show "$id" | grep -qF -- "$gpus" || fail "$client shows no $gpus GPUs that $2 requested from $1"
    done
    "$2" cancel "$id" >/dev/null
  done
  id=$("$controller" submit --quiet --gpu-type a100 --gpus 1 -- sh -c 'until [ -e "$1" ]; do sleep 0.02; done; exit 4' sh "$machines/go")
  wait_for "its start" state_is "$id" running
  kill_agent n1
  DIVVY_HOME=$machines/n1 "$3" agent --detach --quiet || fail "$3 did not follow $2 under $1"
  touch "$machines/go"
  "$controller" wait "$id" >/dev/null || true
  expect 4 "$(field "$id" exit_code)" "the exit code over the upgrade from $2 to $3"
  kill_agent n1
  "$controller" down >/dev/null
  rm -rf "$DIVVY_HOME"/divvy.db* "$machines/go"
}
between "$divvy_binary" "$DIVVY_OLD" "$divvy_binary"
between "$DIVVY_OLD" "$divvy_binary" "$DIVVY_OLD"
echo "versions: the older and the newer release work together"
