# Sourced after lib.sh by tests with a root agent. Provides a second machine, n1: a mount namespace and a PID namespace
# inside the first machine. Its /etc is a copy in which bob has another uid. Its /run and /var/lib are its own, except
# the program and /var/lib/tmp. The network is shared.
# there COMMAND...: runs a command on it.
make_n1() {
  unshare --mount --pid --fork --kill-child --mount-proc bash -ec '
    mkdir /run/n1
    mount -t tmpfs -o mode=755 n1 /run/n1
    mkdir /run/n1/bin /run/n1/home /run/n1/tmp
    for shared in bin tmp; do mount --bind "/var/lib/$shared" "/run/n1/$shared"; done
    install -d -m 700 -o 51002 -g 51002 /run/n1/home/bob
    install -d -m 700 -o 61001 -g 61001 /run/n1/home/alice
    mount --rbind /run/n1 /var/lib
    mount -t tmpfs -o mode=755 run /run
    cp -a /etc /run/etc
    sed -i "s/^bob:x:61002:61002:/bob:x:51002:51002:/" /run/etc/passwd
    sed -i "s/^bob:x:61002:/bob:x:51002:/" /run/etc/group
    mount --bind /run/etc /etc
    rm -f /etc/divvy/divvy.toml
    mkfifo /run/never
    touch /var/lib/made
    # The first process of the namespace; this shell reaps processes that end in it.
    exec 9<>/run/never
    read -r -u 9' &
  wait_for "n1's first process" pgrep -P $!
  n1=$(pgrep -P $!)
  wait_for "n1" there test -e /var/lib/made
}
there() { nsenter --target "$n1" --mount --pid "$@"; }
# there_as USER COMMAND...
there_as() { there setpriv "--reuid=$1" "--regid=$1" --clear-groups --inh-caps=-all "${@:2}"; }
join_n1() {
  divvy token create --node >/var/lib/tmp/n1.token 2>/dev/null
  there divvy agent --join-file /var/lib/tmp/n1.token --name n1 --emulate 4xH100-80GB --detach --quiet || fail "n1 did not join"
  wait_for "n1 as a node" node_is n1 up
}
n1_pid() { there cat /var/lib/divvy/agent/agent.lock; }
as_divvy() { setpriv --reuid=divvy --regid=divvy --clear-groups --inh-caps=-all /usr/bin/python3 "$@"; }
