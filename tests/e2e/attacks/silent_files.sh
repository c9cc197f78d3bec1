#!/usr/bin/env bash
# alice's job reads a file of a FUSE file system that the job itself serves and never answers. Such a process survives
# SIGKILL. A cancellation must still free her GPUs.
. "$(dirname "$0")/lib.sh"
[ -c /dev/fuse ] || skip "no /dev/fuse"
control=/var/lib/fuse-control
mkdir "$control" && mount -t fusectl none "$control" 2>/dev/null || skip "no FUSE"
# As on usual systems, every user may open it.
mknod -m 666 /run/fuse c 10 229 2>/dev/null && mount --bind /run/fuse /dev/fuse || skip "no device file can be made"
# Otherwise a failure would leave a process behind for ever.
abort_all() {
  local one
  for one in "$control"/*; do
    [ ! -d "$one" ] || [[ $before == *" ${one##*/} "* ]] || [ "$(stat -c %u "$one")" != 61001 ] || echo 1 >"$one/abort"
  done
}
before=" $(ls "$control" | tr '\n' ' ') "
trap 'abort_all; clean_up' EXIT
serve
install -m 644 "$attacks/silent_fuse.py" /var/lib/silent_fuse.py
install -d -m 700 -o alice -g alice /var/lib/home/alice/silent
for way in "" detached; do
  job=$(as alice divvy submit --quiet --gpus 4 -- /usr/bin/python3 /var/lib/silent_fuse.py /var/lib/home/alice/silent $way)
  wait_for "a read without an answer" sh -c "divvy logs $job | grep -q ."
  divvy logs "$job" | grep -q asked || skip "$(divvy logs "$job")"
  grep -qs "^fuse_connection:" /proc/"$(first_process "$job")"/fdinfo/* || skip "this kernel does not tell the connection of /dev/fuse (Linux 6.16)"
  as alice divvy cancel --grace 0 "$job" >/dev/null
  wait_for "the end of alice's job" state_is "$job" cancelled
  job=$(as bob divvy submit --quiet --gpus 4 -- true)
  wait_for "bob's job" state_is "$job" succeeded
done
