#!/usr/bin/env bash
# GPU fractions in containers: with the real podman on emulated GPUs, and an image that is built here from this
# machine's libc and has nothing of divvy. Memory is limited inside, the keeper knows the processes by the node's pids,
# and they are parked, woken and moved as outside.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/podman_lib.sh"
export LC_ALL=C
image=localhost/divvy-e2e-shares-$$:1
why=$(why_no_podman)
[ -z "$why" ] || skip "$why"
burn=$(command -v divvy-burn) || fail "divvy-burn lies beside divvy"
configure_podman
begin_image sh sleep cat echo env touch test ls
cp "$burn" rootfs/bin/divvy-burn
ldd "$burn" | grep -oE '/[^ ]+' | while read -r library; do
  mkdir -p "rootfs$(dirname "$library")"
  cp -L "$library" "rootfs$library"
done
libraries=$(dirname "$(ldd "$burn" | grep -oE '/[^ ]*/libc\.so\.6')")
cp -L "$libraries/libpthread.so.0" "$libraries/libdl.so.2" "rootfs$libraries/"
tar -C rootfs -c . | timeout 60 podman import - "$image" >import.txt 2>&1 || skip "it imports no image here: $(tail -n 1 import.txt)"
remove_image() { podman rmi -f "$image" >/dev/null 2>&1 || true; clean_up; }
trap remove_image EXIT
timeout 60 podman run --rm --network=host --ipc=host --pid=host "$image" true >run.txt 2>&1 ||
  timeout 60 podman run --rm --network=host --ipc=host --pid=host "$image" sh -c true >run.txt 2>&1 ||
  skip "it runs no container here: $(tail -n 1 run.txt)"

printf '[container]\nengine = "podman"\n' >divvy.toml
divvy up --quiet --emulate 2xH100-80GB
tenant() {
  divvy gpus --json | python3 -c 'import json, sys
for gpu in json.load(sys.stdin):
  for one in gpu["tenants"]:
    if one["job"] == int(sys.argv[1]): print(one[sys.argv[2]]); sys.exit()' "$1" "$2"
}
gpus_of() {
  divvy gpus --json | python3 -c 'import json, sys
print(" ".join(str(g["index"]) for g in json.load(sys.stdin) if int(sys.argv[1]) in g["jobs"]))' "$1"
}
tenant_is() { [ "$(tenant "$1" "$2")" = "$3" ]; }
has_memory() { [ "$(tenant "$1" used_bytes)" -ge 1000000000 ] 2>/dev/null; }
inside() { divvy run --image "$image" "$@"; }

# The share folder and the library are at the same paths inside, and nothing else of the node's environment is.
LD_PRELOAD='' inside --gpus 0.5 -- sh -c 'ls "$DIVVY_SHARE"; echo "$LD_PRELOAD"; test -r "$LD_PRELOAD" && echo readable; echo "$CUDA_VISIBLE_DEVICES"' >out.txt
grep -qx link out.txt && grep -qx page out.txt && grep -qx readable out.txt || fail "inside is: $(cat out.txt)"
expect 1 "$(grep -c '/libdivvy_cuda.so$' out.txt)" "libraries to be loaded first"
expect 1 "$(grep -o GPU- out.txt | wc -l)" "GPUs that are seen"

# Emulated GPUs also work inside for whole-GPU jobs.
inside --gpus 1 -- divvy-burn --gpu-seconds 0.2 --vram 1G --check >whole.txt || fail "a whole GPU in a container: $(cat whole.txt)"
grep -q "errors=0" whole.txt || fail "its memory: $(cat whole.txt)"

# The limit holds inside, and the program sees the same limit.
code=0; inside --gpus 0.25 -- divvy-burn --gpu-seconds 0.2 --vram 30G >much.txt 2>&1 || code=$?
[ "$code" != 0 ] || fail "30G of a quarter of 80G were given: $(cat much.txt)"
grep -q OUT_OF_MEMORY much.txt || fail "it was told: $(cat much.txt)"
inside --gpus 0.25 -- divvy-burn --gpu-seconds 0.2 --vram 15G --check >some.txt || fail "15G were refused: $(cat some.txt)"

# It is a tenant like any other: it is listed, limited by the library, parked, woken and moved.
burn() { divvy submit --quiet --image "$image" "$@"; }
job=$(burn --gpus 0.5 -- divvy-burn --gpu-seconds 600 --vram 1G --check)
wait_for "its memory" has_memory "$job"
expect "enforced by interposer" "$(tenant "$job" mechanism)" "what holds it to its share"
from=$(gpus_of "$job")
divvy move "$job" --to $((1 - from)) >/dev/null
is_moved() { [ "$(gpus_of "$job")" = $((1 - from)) ] && has_memory "$job"; }
wait_for "it is on the other GPU" is_moved
divvy signal TERM "$job" >/dev/null
wait_for "its end" state_is "$job" succeeded
divvy logs "$job" | grep -q "errors=0" || fail "its memory: $(divvy logs "$job")"

job=$(burn --gpus 0.25 -- divvy-burn --gpu-seconds 600 --vram 1G --check --idle-after 0.2 --wake-after 3600)
wait_for "it to be idle" sh -c "divvy logs $job | grep -q idle"
divvy park "$job" >/dev/null
wait_for "it is parked" tenant_is "$job" state parked
expect 0 "$(tenant "$job" used_bytes)" "bytes of a parked container on the GPU"
divvy wake "$job" >/dev/null
wait_for "it is back" has_memory "$job"
divvy signal TERM "$job" >/dev/null
wait_for "its end" state_is "$job" succeeded
divvy logs "$job" | grep -q "errors=0" || fail "its memory: $(divvy logs "$job")"

# A step in a container, started from a script outside, has the share of the job.
mkdir bin && divvy shims bin >/dev/null
cat >step.sh <<T
#!/bin/bash
divvy run --image $image -- sh -c 'echo "\$DIVVY_SHARE \$LD_PRELOAD"; exec divvy-burn --gpu-seconds 0.1 --vram 30G'
T
chmod +x step.sh
code=0; divvy submit --quiet --wait -o step.out --gpus 0.25 step.sh >/dev/null || code=$?
[ "$code" != 0 ] && grep -q OUT_OF_MEMORY step.out || fail "a step had 30G of a quarter of 80G: $(cat step.out)"
grep -q "/libdivvy_cuda.so$" step.out || fail "a step in a container has: $(cat step.out)"
echo "tested with podman: $(podman --version)"
