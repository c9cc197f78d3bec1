#!/usr/bin/env bash
# The short form of scripts/test-cluster. Needs hosts in network namespaces.
set -u
DIVVY=${DIVVY:?path of the divvy to test}
export DIVVY
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "network namespaces take root"
for command in ip python3 iptables; do
  command -v $command >/dev/null || skip "$command is not installed (apt-get install iproute2 python3 iptables)"
done
probe=dvprobe$$
ip netns add $probe 2>/dev/null || skip "this machine makes no network namespaces"
ip link add dvp$$ type bridge 2>/dev/null && ip link del dvp$$
usable=$?
ip netns del $probe
[ $usable = 0 ] || skip "this machine makes no network bridges"
exec "$(dirname "$0")/../../scripts/test-cluster" --short --histories 2
