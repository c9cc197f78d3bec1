#!/usr/bin/env bash
# Jobs that try to use other jobs' GPUs: refused and counted by a cgroup, refused by mounts with and without root, and
# reported by status and show. The GPUs are emulated. Their device files are harmless devices: GPU 0 is another
# /dev/zero, GPU 1 another /dev/full.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "device files are made by root"
chmod 755 "$DIVVY_HOME"
devices=$DIVVY_HOME/devices
mkdir "$devices"
mknod -m 666 "$devices/gpu0" c 1 5
mknod -m 666 "$devices/gpu1" c 1 7
head -c 1 "$devices/gpu0" >/dev/null 2>&1 || skip "devices do not open in $devices (nodev)"
# configure DEVICES [LINE...]: starts a daemon that closes devices in this way.
configure() {
  divvy down >/dev/null 2>&1 || true
  printf '[isolation]\ndevice_files = "%s/gpu*"\ndevices = "%s"\n' "$devices" "$1" >"$DIVVY_HOME/divvy.toml"
  shift
  printf '%s\n' "$@" >>"$DIVVY_HOME/divvy.toml"
  divvy up --quiet --emulate 2xH100-80GB 2>refusal
}
isolation() { divvy status | sed -n 's/^isolation  *//p'; }
curious="head -c 1 '$devices/gpu0' >/dev/null && echo opened0; head -c 1 '$devices/gpu1' >/dev/null && echo opened1; true"
try() { divvy run --gpus 1 -- sh -c "$curious" 2>&1; }
shown=

# Emulated GPUs without device files, as usual.
divvy up --quiet --emulate 2xH100-80GB
case $(isolation) in "advisory (CUDA_VISIBLE_DEVICES)"*) ;; *) fail "status of emulated GPUs: $(isolation)" ;; esac
expect 0 "$(divvy run --gpus 1 -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" "the GPU of a job that sees all"
divvy down >/dev/null

if configure cgroup; then
  shown="$shown, by $(isolation | sed 's/^enforced (//; s/).*//')"
  case $(isolation) in "enforced (cgroup v"*) ;; *) fail "status: $(isolation)" ;; esac
  out=$(try)
  case $out in *"gpu1' for reading: Operation not permitted"*) ;; *) fail "GPU 1 was not refused: $out" ;; esac
  case $out in opened0*) ;; *) fail "the job's own GPU was refused: $out" ;; esac
  # The second job has only GPU 1, which CUDA numbers as 0.
  holder=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e "$DIVVY_HOME/go" ]; do sleep 0.02; done')
  wait_for "the holder" state_is "$holder" running
  case $(field "$holder" isolation) in "enforced (cgroup v"*) ;; *) fail "show: $(field "$holder" isolation)" ;; esac
  second=$(divvy submit --quiet --gpus 1 -- sh -c "$curious; echo \$CUDA_VISIBLE_DEVICES/\$DIVVY_GPUS; while [ ! -e \"\$DIVVY_HOME/go\" ]; do sleep 0.02; done")
  told() { divvy logs "$second" | grep -q "^0/1$"; }
  wait_for "the second job" told
  cgroup=$(sed -n 's/^cgroup=//p' "$DIVVY_HOME/runs/$second")
  divvy logs "$second" | grep -q "opened0" && fail "GPU 0 was opened by the job on GPU 1"
  divvy logs "$second" | grep -q "opened1\|gpu1.*No space" || fail "the job on GPU 1 cannot open it"
  # A bypass: the job creates its own file for the same device.
  out=$(divvy run --gpus 0 -- sh -c "mknod '$DIVVY_HOME/mine' c 1 7 && head -c 1 '$DIVVY_HOME/mine' >/dev/null" 2>&1) && fail "a job opened GPU 1 by a file of its own"
  case $out in *"Operation not permitted"*) ;; *) fail "the way around: $out" ;; esac
  if isolation | grep -q "cgroup v2"; then
    expect "enforced (cgroup v2); 1 open of another GPU refused" "$(field "$second" isolation)" "the count of a running job"
    # kill -9 of the daemon does not lose the count of a running job.
    kill -9 "$(daemon_pid)"
    configure cgroup
    wait_for "the running job's count" sh -c "divvy show $second | grep -q '1 open of another GPU refused'"
    touch go
    wait_for "the second job's end" state_is "$second" succeeded
    expect "1 open of another GPU refused" "$(field "$second" isolation)" "the count of an ended job"
    case $(isolation) in *"1 opens refused since the daemon began"*) ;; *) fail "the sum: $(isolation)" ;; esac
  fi
  touch go
  wait_for "an empty queue" queue_is_empty
  rm -f go
  # No device is closed for a job with every GPU.
  expect 0,1 "$(divvy run --gpus 2 -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" "a job with all GPUs"
  [ -n "$cgroup" ] || fail "the run record names no cgroup"
  for directory in $cgroup; do [ ! -d "$directory" ] || fail "left: $directory"; done
else
  grep -q 'devices = "cgroup" does not work here' refusal || fail "the refusal says: $(cat refusal)"
  echo "isolation: no cgroup can deny devices here: $(cat refusal)"
fi

if configure mounts; then
  shown="$shown, by mounts"
  case $(isolation) in "enforced (mount namespace)"*) ;; *) fail "status: $(isolation)" ;; esac
  out=$(try)
  case $out in *"gpu1' for reading: Permission denied"*) ;; *) fail "GPU 1 was not refused by mounts: $out" ;; esac
  case $out in opened0*) ;; *) fail "the job's own GPU was refused by mounts: $out" ;; esac
  head -c 0 "$devices/gpu1" || fail "GPU 1 is closed to all"
else
  grep -q 'devices = "mounts" does not work here' refusal || fail "the refusal says: $(cat refusal)"
  echo "isolation: mount namespaces are not available here: $(cat refusal)"
fi

# A private /tmp, a limit on processes, and no new privileges.
if configure off 'private_tmp = true' 'new_privileges = false' 'processes = 12'; then
  case $(isolation) in advisory*"private /tmp"*"no new privileges"*) ;; *) fail "status: $(isolation)" ;; esac
  mark=divvy-isolation.$$
  expect "$mark NoNewPrivs: 1" "$(divvy run -- sh -c "touch /tmp/$mark; cd /tmp; echo divvy-isolation* \$(grep NoNewPrivs /proc/self/status)")" "/tmp and privileges"
  [ ! -e "/tmp/$mark" ] || fail "the job's /tmp is everybody's"
  expect "no" "$(divvy run --private-tmp=no -- sh -c "touch /tmp/$mark.all; [ -e /dev/shm/$mark.never ] || echo no")" "a job that asks for the /tmp of all"
  [ -e "/tmp/$mark.all" ] || fail "--private-tmp=no gave a /tmp of its own"
  rm -f "/tmp/$mark.all"
  # Scripts and the daemon can be reached, even if they are below /tmp.
  cp "$divvy_binary" own-divvy
  printf '#!/bin/sh\n"$DIVVY_HOME/own-divvy" status --json | grep -c pid\n' >script.sh
  expect 1 "$(divvy run ./script.sh)" "divvy inside a job with its own /tmp"
  if isolation | grep -q processes; then
    divvy run -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 2 & done; kill $(jobs -p); echo all' 2>/dev/null | grep -q all &&
      fail "a job started more processes than it may"
  fi
fi
divvy down >/dev/null

# A single job that requests its own /tmp; a CPU limit as requested.
if configure off 'cpu_quota = true'; then
  mark=divvy-isolation.$$
  expect "$mark" "$(divvy run --private-tmp -- sh -c "touch /tmp/$mark /dev/shm/$mark; cd /dev/shm; ls")" "a /dev/shm of its own"
  [ ! -e "/tmp/$mark" ] && [ ! -e "/dev/shm/$mark" ] || fail "--private-tmp left $mark to all"
  other=$(mktemp -d /tmp/divvy-elsewhere-XXXXXX)
  ! said=$(divvy run --chdir "$other" --private-tmp -- true 2>&1) || fail "ran in $other, which its own /tmp does not have"
  rmdir "$other"
  grep -q "is below /tmp, and the job has its own" <<<"$said" || fail "a directory below /tmp: $said"
  divvy run --private-shm -- touch "/tmp/$mark" "/dev/shm/$mark"
  [ -e "/tmp/$mark" ] && [ ! -e "/dev/shm/$mark" ] || fail "--private-shm is of something else"
  rm -f "/tmp/$mark"
  if isolation | grep -q "CPU time limited to --cpus"; then
    quota='cat "$d/cpu.max" "$d/cpu.cfs_quota_us" 2>/dev/null | head -n 1'
    job=$(divvy submit --quiet --cpus 1 -- sh -c 'while [ ! -e "$DIVVY_HOME/go" ]; do sleep 0.02; done')
    wait_for "the job with a quota" state_is "$job" running
    d=$(sed -n 's/^cgroup=//p' "$DIVVY_HOME/runs/$job")
    case $(eval "$quota") in 100000*) ;; *) fail "its CPU quota is '$(eval "$quota")' in '$d'" ;; esac
    touch go
    divvy wait "$job" >/dev/null
    rm go
  fi
fi
divvy down >/dev/null

# Without root: a daemon of an unprivileged user, with a user namespace per job.
private=$(mktemp -d)
cp "$divvy_binary" "$private/divvy"
mkdir "$private/home"
printf '[isolation]\ndevice_files = "%s/gpu*"\n' "$devices" >"$private/home/divvy.toml"
chmod 755 "$private"
chown -R 65534:65534 "$private/home"
as_nobody() { (cd "$private/home" && DIVVY_HOME="$private/home" HOME="$private/home" setpriv --reuid=65534 --regid=65534 --clear-groups "$private/divvy" "$@"); }
as_nobody up --quiet --emulate 2xH100-80GB
how=$(as_nobody status | sed -n 's/^isolation  *//p')
out=$(as_nobody run --gpus 1 -- sh -c "$curious; id -u" 2>&1) || true
mark=divvy-isolation.$$
own=$(as_nobody run --private-tmp -- sh -c "touch /tmp/$mark /dev/shm/$mark && ls /dev/shm; id -u" 2>&1) || true
as_nobody down >/dev/null
rm -rf "$private"
[ ! -e "/tmp/$mark" ] && [ ! -e "/dev/shm/$mark" ] || fail "--private-tmp without root left $mark to all"
case $how in
  "enforced (mount namespace)"*)
    shown="$shown, without root"
    expect "$mark 65534" "$(xargs <<<"$own")" "private /tmp and /dev/shm without root"
    case $out in opened0*"gpu1' for reading: Permission denied"*65534) ;; *) fail "without root: $out" ;; esac
    ;;
  advisory*)
    echo "isolation: without root it is $how"
    grep -q -- '--private-tmp does not work on this node: no mount namespace' <<<"$own" || fail "--private-tmp without root says: $own"
    ;;
  *) fail "status without root: $how" ;;
esac
[ -n "$shown" ] || fail "none of the ways works here"
echo "isolation: access was denied${shown#,}"
