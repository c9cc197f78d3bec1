#!/usr/bin/env bash
# The short form of scripts/test-cluster, where this machine lets hosts be made in network namespaces.
set -u
DIVVY=${DIVVY:?path of the divvy to test}
export DIVVY
[ "$(id -u)" = 0 ] || exit 77
command -v ip >/dev/null && command -v python3 >/dev/null && command -v iptables >/dev/null || exit 77
probe=dvprobe$$
ip netns add $probe 2>/dev/null || exit 77
ip link add dvp$$ type bridge 2>/dev/null && ip link del dvp$$
usable=$?
ip netns del $probe
[ $usable = 0 ] || exit 77
exec "$(dirname "$0")/../../scripts/test-cluster" --short --histories 2
