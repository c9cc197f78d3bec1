# For tests that run podman on images of their own making. Sourced after lib.sh.

# Why podman cannot be tried on this machine; nothing where it can.
why_no_podman() {
  if ! command -v podman >/dev/null; then echo "it is not installed (apt-get install podman runc busybox-static)"
  elif [ ! -x /bin/busybox ] || ldd /bin/busybox >/dev/null 2>&1; then
    echo "there is no static busybox to make an image of (apt-get install busybox-static)"
  fi
}

# Limits and runtime that work without systemd, for every podman of this test.
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

# The beginning of an image in rootfs/: busybox under these names.
begin_image() {
  mkdir -p rootfs/bin rootfs/tmp rootfs/etc
  cp /bin/busybox rootfs/bin/
  local name
  for name in "$@"; do ln -s busybox "rootfs/bin/$name"; done
}
