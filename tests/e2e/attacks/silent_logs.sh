#!/usr/bin/env bash
# alice's job writes its output into a file system that stops answering, as a FUSE file system of hers can. The numbers
# that bob's job reports in its own output must still be read, and the daemon must end.
. "$(dirname "$0")/lib.sh"
control=/var/lib/fuse-control
[ -c /dev/fuse ] && mkdir "$control" && mount -t fusectl none "$control" 2>/dev/null || skip "no FUSE"
serve
for user in alice bob; do install -d -m 755 -o $user -g $user "/var/lib/out-$user"; done
script_of bob train.sh <<'S'
#!/bin/sh
while :; do echo "{\"step\": $(cat step), \"loss\": 0.5}"; sleep 0.1; done
S
echo 1 >/var/lib/home/bob/step
hers=$(as alice divvy submit --quiet --output /var/lib/out-alice/log -- sh -c 'while :; do echo "{\"a\": 1}"; sleep 0.1; done')
his=$(as bob divvy submit --quiet --output /var/lib/out-bob/log -- ./train.sh)
private=$(as bob divvy submit --quiet --output /var/lib/home/bob/log -- ./train.sh)
# is_at JOB STEP: the newest step that the daemon knows.
is_at() { as bob divvy metrics "$1" -m own.step --csv | tail -n 1 | grep -q ",own.step,,[0-9.]*,[0-9.]*,$2,"; }
wait_for "bob's numbers" is_at "$his" 1
wait_for "bob's numbers in his private home" is_at "$private" 1
wait_for "alice's numbers" sh -c "divvy metrics $hers -m own.a --csv | grep -q own.a"

# Mounts a file system at the folder and never answers. Prints its minor device number.
/usr/bin/python3 - >mounted <<'P' &
import ctypes, os, signal
place = b"/var/lib/out-alice"
fd = os.open("/dev/fuse", os.O_RDWR)
options = b"fd=%d,rootmode=40000,user_id=61001,group_id=61001,allow_other" % fd
if ctypes.CDLL(None).mount(b"silent", place, b"fuse", 0, options) != 0:
    raise SystemExit("no mount")
print(next(line.split()[2].split(":")[1] for line in open("/proc/self/mountinfo") if b" " + place + b" " in line.encode()), flush=True)
signal.pause()
P
silent=$!
wait_for "the silent file system" grep -q . mounted
is_asked() { [ "$(cat "$control/$(cat mounted)/waiting")" -gt 1 ]; }
wait_for "a read of alice's output" is_asked
for step in 2 3; do
  echo $step >/var/lib/home/bob/step
  WAIT_S=30 wait_for "step $step of bob" is_at "$his" $step
done
kill "$silent" # This ends the file system, and all reads of it.
echo 4 >/var/lib/home/bob/step
wait_for "step 4" is_at "$private" 4
