#!/usr/bin/env bash
# alice asks for output in a file system that does not answer, as a FUSE file system of hers can. bob and root still
# read, what bob's job reports still arrives, and the daemon still ends.
. "$(dirname "$0")/lib.sh"
[ -c /dev/fuse ] && command -v curl >/dev/null || skip "no /dev/fuse or no curl"
control=/var/lib/fuse-control
mkdir "$control" && mount -t fusectl none "$control" 2>/dev/null || skip "no FUSE"
serve
install -d -m 700 -o alice -g alice /var/lib/home/alice/out
job=$(as alice divvy submit --quiet --output /var/lib/home/alice/out/log -- echo hers)
of_bob=$(as bob divvy submit --quiet -- echo his)
divvy wait "$job" "$of_bob" >/dev/null
running=$(as alice divvy submit --quiet --gpus 1 --output /var/lib/home/alice/out/log -- sleep 600)
reports=$(as bob divvy submit --quiet --gpus 1 --output /var/lib/home/bob/log -- \
  sh -c 'while sleep 0.2; do cat value; done')
echo '{"loss": 1}' | script_of bob value
has_loss() { as bob divvy metrics "$reports" -m own.loss --csv | grep -q ",own.loss,.*$1"; }
wait_for "a report of bob's job" has_loss 1
state_is "$running" running || fail "alice's job does not run"

# Mounts a file system at the folder and never answers an access. Prints its minor device number.
/usr/bin/python3 - >mounted <<'P' &
import ctypes, os, struct
place = b"/var/lib/home/alice/out"
fd = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=61001,group_id=61001,allow_other" % fd
if ctypes.CDLL(None).mount(b"silent", place, b"fuse", 0, options) != 0:
    raise SystemExit("no mount")
print(next(line.split()[2].split(":")[1] for line in open("/proc/self/mountinfo") if b" " + place + b" " in line.encode()), flush=True)
unique = struct.unpack_from("<IIQ", os.read(fd, 1 << 20))[2]
init = struct.pack("<4I2H2I2H2IH11H", 7, 31, 0, 0, 12, 9, 4096, 1, 0, 0, 0, 0, 0, *[0] * 11)
os.write(fd, struct.pack("<IiQ", 16 + len(init), 0, unique) + init)
# A process waits uninterruptibly for the answer to a request that was taken.
while True:
    os.read(fd, 1 << 20)
P
silent=$!
wait_for "the silent file system" grep -q . mounted
for _ in $(seq 16); do log_by_api alice "$job" >/dev/null 2>&1 & done
is_asked() { [ "$(cat "$control/$(cat mounted)/waiting")" -gt 0 ]; }
wait_for "a read of alice's file" is_asked
expect his "$(as bob timeout 60 curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$of_bob/log?at=0")" "bob's read next to alice's"
timeout 60 curl -sS --unix-socket /run/divvy/divvy.sock "http://divvy/v1/jobs/$of_bob/log?at=0" >of_root || fail "root's read has no answer"
grep -q his of_root || fail "root reads: $(cat of_root)"
echo '{"loss": 2}' | script_of bob value
wait_for "a report of bob's job next to alice's output" has_loss 2
# Processes that wait for her file: few, whatever she asks.
for _ in $(seq 8); do log_by_api alice "$job" >answer 2>&1; done
grep -q "its file system does not answer" answer || fail "alice reads: $(cat answer)"
waiting=$(ps -eo euser,stat,comm | grep -c '^alice *D.*divvy' || true)
[ "$waiting" -gt 0 ] && [ "$waiting" -le 8 ] || fail "$waiting processes wait for alice's file: $(ps -eo euser,stat,comm)"
timeout 60 divvy down >/dev/null || fail "the daemon does not end"
divvy up --quiet --emulate 4xA100-40GB
state_is "$reports" running || fail "bob's job was lost"
kill "$silent" # This ends the file system, and all reads of it.
