# For tests that run podman with images that they build themselves. Sourced after lib.sh.

# Prints why podman cannot be tested on this machine; prints nothing if it can.
why_no_podman() {
  if ! command -v podman >/dev/null; then echo "it is not installed (apt-get install podman runc busybox-static)"
  elif [ ! -x /bin/busybox ] || ldd /bin/busybox >/dev/null 2>&1; then
    echo "there is no static busybox to make an image of (apt-get install busybox-static)"
  fi
}

# Sets limits and a runtime that work without systemd, for every podman of this test.
configure_podman() {
  cat >containers.conf <<'C'
[containers]
default_ulimits = ["nproc=1024:1024", "nofile=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
C
  ! command -v runc >/dev/null || echo 'runtime = "runc"' >>containers.conf
  export CONTAINERS_CONF=$PWD/containers.conf
}

# Creates the base of an image in rootfs/: busybox, with links of these names.
begin_image() {
  mkdir -p rootfs/bin rootfs/tmp rootfs/etc
  cp /bin/busybox rootfs/bin/
  local name
  for name in "$@"; do ln -s busybox "rootfs/bin/$name"; done
}
