#!/usr/bin/env bash
# alice asks for output in a file system that does not answer, as a FUSE file system of hers can. bob and root still read.
. "$(dirname "$0")/lib.sh"
[ -c /dev/fuse ] && command -v curl >/dev/null || skip "no /dev/fuse or no curl"
control=/var/lib/fuse-control
mkdir "$control" && mount -t fusectl none "$control" 2>/dev/null || skip "no FUSE"
serve
install -d -m 700 -o alice -g alice /var/lib/home/alice/out
job=$(as alice divvy submit --quiet --output /var/lib/home/alice/out/log -- echo hers)
of_bob=$(as bob divvy submit --quiet -- echo his)
divvy wait "$job" "$of_bob" >/dev/null

# Mounts a file system at the folder and never answers. Prints its minor device number.
/usr/bin/python3 - >mounted <<'P' &
import ctypes, os, signal
place = b"/var/lib/home/alice/out"
fd = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=61001,group_id=61001,allow_other" % fd
if ctypes.CDLL(None).mount(b"silent", place, b"fuse", 0, options) != 0:
    raise SystemExit("no mount")
print(next(line.split()[2].split(":")[1] for line in open("/proc/self/mountinfo") if b" " + place + b" " in line.encode()), flush=True)
signal.pause()
P
silent=$!
wait_for "the silent file system" grep -q . mounted
for _ in $(seq 16); do log_by_api alice "$job" >/dev/null 2>&1 & done
# One request is the kernel's own.
is_asked() { [ "$(cat "$control/$(cat mounted)/waiting")" -gt 1 ]; }
wait_for "a read of alice's file" is_asked
expect his "$(as bob timeout 60 curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$of_bob/log?at=0")" "bob's read next to alice's"
timeout 60 curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$of_bob/log?at=0" >of_root || fail "root's read has no answer"
grep -q his of_root || fail "root reads: $(cat of_root)"
kill "$silent" # This ends the file system, and all reads of it.
