# Sourced by the other scripts: the project's root folder, and the Debian packages that it needs.
# shellcheck shell=bash
#
# DIVVY_NO_INSTALL=1: installs nothing, reports what is missing and continues.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

build_packages=(
  g++ cmake ninja-build ccache          # Compiler and build.
  libboost1.81-dev libboost-json1.81-dev # HTTP and JSON.
  libsqlite3-dev                         # The store.
  libssl-dev                             # TLS.
  zlib1g-dev                             # Compressed traces, for divvy simulate.
  libyaml-cpp-dev                        # valohai.yaml.
  libncurses-dev                         # divvy top.
  libexpected-dev                        # base/result.h.
  libgtest-dev                           # For tests; CMake requires it even if no test is built.
)
e2e_packages=(bsdutils curl openssl python3)  # For tests/e2e; tests that need a missing package are skipped.
container_packages=(podman runc uidmap busybox-static)  # For tests/e2e/containers.sh; without them it uses stand-ins.
cluster_packages=(python3 iproute2 iptables openmpi-bin)  # For scripts/test-cluster; else e2e.cluster is skipped.
lint_packages=(clang-format-14 python3)
sanitizer_packages=(clang-16 llvm-16 libclang-rt-16-dev)
second_compiler_packages=(clang-16)

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# is_installed PACKAGE
is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    # Without a terminal no password can be typed, so sudo must fail at once.
    if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
  else
    return 1
  fi
}

# need_packages PACKAGE...: installs missing packages and prints their names.
need_packages() {
  local package missing=()
  if ! command -v dpkg-query >/dev/null; then
    say "Not a Debian system: assuming that the content of these packages is installed: $*"
    return
  fi
  for package in "$@"; do is_installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return
  if [ "${DIVVY_NO_INSTALL:-}" = 1 ]; then
    say "Missing packages, not installed because DIVVY_NO_INSTALL=1: ${missing[*]}"
    return
  fi
  say "Installing with apt: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300)
  { as_root "${apt[@]}" update && as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } </dev/null >"${TMPDIR:-/tmp}/divvy-apt.$$" 2>&1 || {
    tail -n 20 "${TMPDIR:-/tmp}/divvy-apt.$$" >&2
    fail "installation failed; run as root: apt-get install ${missing[*]}"
  }
  rm -f "${TMPDIR:-/tmp}/divvy-apt.$$"
}

# unpack_package PACKAGE: unpacks the package below build/unpacked. Does not install it and starts none of its services.
unpack_package() {
  local folder=$PWD/build/unpacked
  [ ! -e "$folder/$1.done" ] || return 0
  if [ "${DIVVY_NO_INSTALL:-}" = 1 ] || ! command -v apt-get >/dev/null; then return 1; fi
  mkdir -p "$folder"
  (cd "$folder" && apt-get -qq download "$1" </dev/null >"$1.log" 2>&1 && dpkg-deb -x "$1"_*.deb . && rm -f "$1"_*.deb && touch "$1.done")
}

# The libraries of PostgreSQL's programs and of its client library.
postgres_libraries=(
  libpq5 libssl3 libldap-2.5-0 libsasl2-2 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libkeyutils1 libcom-err2
  libxml2 libicu72 liblz4-1 libzstd1 liblzma5 libpam0g libaudit1 libcap-ng0 libselinux1 libsystemd0 libcap2 libgcrypt20
  libgpg-error0 libgnutls30 libp11-kit0 libidn2-0 libunistring2 libtasn1-6 libnettle8 libhogweed6 libgmp10 libffi8
  libreadline8 libtinfo6
)

# unpack_postgres: unpacks PostgreSQL's server, its programs and the libraries that are not installed. Sets and exports
# LD_LIBRARY_PATH if needed. Does nothing if the server and the client library are installed.
unpack_postgres() {
  local folder=$PWD/build/unpacked package libraries
  if [ -x /usr/lib/postgresql/15/bin/postgres ] && is_installed libpq5; then return 0; fi
  unpack_package postgresql-15 && unpack_package postgresql-client-15 || return 1
  libraries=$folder/usr/lib/$(uname -m)-linux-gnu:$folder/lib/$(uname -m)-linux-gnu
  for package in "${postgres_libraries[@]}"; do
    is_installed "$package" || unpack_package "$package" || return 1
  done
  export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  ! ldd "$folder/usr/lib/postgresql/15/bin/postgres" | grep -q "not found"
}

# unpack_patroni: unpacks Patroni, its modules of Python, and etcd below build/unpacked, unless they are installed.
unpack_patroni() {
  local package
  for package in etcd-server patroni python3-etcd python3-dnspython python3-urllib3 python3-psycopg2 python3-psutil python3-yaml \
    python3-click python3-colorama python3-dateutil python3-six python3-prettytable python3-wcwidth python3-cdiff; do
    is_installed "$package" || unpack_package "$package" || return 1
  done
}

# unpack_haproxy: unpacks HAProxy and the libraries that are not installed. Extends and exports PATH and LD_LIBRARY_PATH.
# Does nothing if it is installed.
unpack_haproxy() {
  local folder=$root/build/unpacked package
  if [ -x /usr/sbin/haproxy ] || command -v haproxy >/dev/null; then return 0; fi
  for package in haproxy liblua5.3-0 libopentracing-c-wrapper0 libopentracing1; do
    is_installed "$package" || (cd "$root" && unpack_package "$package") || return 1
  done
  export PATH=$folder/usr/sbin:$PATH
  export LD_LIBRARY_PATH=$folder/usr/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  haproxy -v >/dev/null 2>&1
}

# unpack_slurm: unpacks Slurm and munge below build/unpacked, unless they are installed. Sets $slurm_prefix, the folder
# that contains usr/, and $slurm_libraries, the folders of their libraries.
unpack_slurm() {
  local package folder=$PWD/build/unpacked
  slurm_prefix='' slurm_libraries=''
  if command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null; then return 0; fi
  for package in slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge liblua5.1-0 libmunge2 libhwloc15 libjson-c5 libhttp-parser2.9 libpmix2 libjwt0; do
    is_installed "$package" || unpack_package "$package" || [ "${package#lib}" != "$package" ] || return 1
  done
  slurm_prefix=$folder
  slurm_libraries=$folder/usr/lib/$(uname -m)-linux-gnu:$folder/usr/lib/$(uname -m)-linux-gnu/slurm-wlm
  ! LD_LIBRARY_PATH=$slurm_libraries ldd "$folder/usr/sbin/slurmctld-wlm" "$folder/usr/sbin/slurmd-wlm" "$folder/usr/sbin/munged" | grep -q "not found"
}

# build_tree PRESET [TARGET...]: configures if needed and builds; the presets are in CMakePresets.json.
build_tree() {
  local preset=$1 directory=build start=$SECONDS log
  shift
  [ "$preset" = release ] || directory=build-$preset
  log=$(mktemp)
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "cmake --preset $preset failed"
  fi
  rm -f "$log"
  say "Building ${*:-everything} in $directory ..."
  NINJA_STATUS='[%f/%t] ' cmake --build "$directory" -j "$(jobs_at_once)" ${1:+--target "$@"} || fail "the build failed"
  say "Built in $((SECONDS - start)) s."
}

# One compiler for each CPU, but no more than the available memory has gigabytes.
jobs_at_once() {
  local cpus gigabytes
  cpus=$(nproc)
  gigabytes=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
  [ "${gigabytes:-1}" -ge 1 ] || gigabytes=1
  echo $((cpus < gigabytes ? cpus : gigabytes))
}
