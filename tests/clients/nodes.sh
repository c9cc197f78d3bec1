# Sourced by clients that need several nodes: restarts the daemon, with two agents on this machine that have two emulated
# GPUs each. They end with the client.
machines=$(mktemp -d)
end_nodes() {
  local code=$?
  set +e
  divvy cancel --all --grace 0 >/dev/null 2>&1
  divvy wait --all >/dev/null 2>&1
  for agent in "$machines"/*/agent/agent.lock; do
    pid=$(cat "$agent") && kill "$pid" 2>/dev/null || continue
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
  done
  rm -rf "$machines"
  exit $code
}
trap end_nodes EXIT
divvy down >/dev/null
for try in 1 2 3 4 5; do
  if divvy up --quiet --emulate 2xH100-80GB --listen "127.0.0.1:$((20000 + (RANDOM + $$) % 12000))"; then break; fi
  [ $try -lt 5 ] || { echo "the daemon found no free port" >&2; exit 1; }
done
divvy token create --node --uses 2 >node.token 2>/dev/null
for node in n1 n2; do
  DIVVY_HOME=$machines/$node divvy agent --join-file "$PWD/node.token" --name $node --emulate 2xH100-80GB --detach --quiet
done
for try in $(seq 600); do
  [ "$(divvy nodes --csv | grep -c ',up,')" -lt 3 ] || break
  [ "$try" -lt 600 ] || { echo "the nodes did not join:" >&2; divvy nodes >&2; exit 1; }
  sleep 0.1
done
