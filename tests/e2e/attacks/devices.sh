#!/usr/bin/env bash
# A job opens other jobs' GPUs: with a "container engine" of its user's own that runs instead of a real one, and as an
# elastic job where the configuration requires that GPUs are closed. The GPUs are emulated; their device files are
# harmless devices.
. "$(dirname "$0")/lib.sh"
mkdir /var/lib/gpus
numbers=(5 7 8 9) # Minor numbers of zero, full, random and urandom. Device rules match them, so they must differ.
for gpu in 0 1 2 3; do mknod -m 666 "/var/lib/gpus/gpu$gpu" c 1 "${numbers[gpu]}"; done
head -c 1 /var/lib/gpus/gpu0 >/dev/null 2>&1 || skip "devices do not open in /var/lib (nodev)"
script_of alice podman <<'S'
#!/bin/sh
for gpu in 0 1 2 3; do head -c 1 /var/lib/gpus/gpu$gpu >/dev/null 2>&1 && echo "open $gpu"; done
exit 0
S
attack() { as alice env PATH=/var/lib/home/alice:/usr/bin:/bin:/var/lib/bin divvy run --gpus 1 --image alpine -- true 2>&1 | grep -c ^open || true; }

serve '[isolation]' 'devices = "mounts"' 'device_files = "/var/lib/gpus/gpu*"'
expect 1 "$(attack)" "GPUs that an engine of alice's own opens, where mounts close the others"
divvy down >/dev/null

# If the administrator requires isolation and it cannot be enforced, the daemon refuses to start.
! serve '[isolation]' 'require = true' 2>refusal || fail "GPUs without device files are served although closing them is required"
grep -q 'require = true, but access to GPUs cannot be denied here' refusal || fail "the refusal says: $(cat refusal)"
serve '[isolation]' 'require = true' 'device_files = "/var/lib/gpus/gpu*"'
expect 0 "$(as alice divvy run --gpus 1..2 -- sh -c 'ls -l /var/lib/gpus; head -c 1 /var/lib/gpus/gpu3' 2>/dev/null | wc -c)" "what an elastic job reads"
job=$(as alice divvy submit --quiet --gpus 1..2 -- true)
wait_for "the refusal" state_is "$job" failed
field "$job" reason | grep -q 'an elastic job' || fail "the reason is: $(field "$job" reason)"
expect kept "$(as alice divvy run --gpus 1 -- echo kept)" "a job whose GPUs stay the same"
