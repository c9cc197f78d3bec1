#!/usr/bin/env bash
# Jobs in containers: with the real podman if it runs here, on an image built here, and with stand-ins for docker and
# for a failing podman. No registry is contacted.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/podman_lib.sh"
export LC_ALL=C
image=localhost/divvy-e2e-$$:1

# --- Engines that only record their arguments -------------------------------------------------------------------------
mkdir stand-in
# The node removes left-over containers in its own environment, so the path of the file is written into the script.
{ echo '#!/bin/bash'; echo "said=$PWD/docker.said"; } >stand-in/docker
cat >>stand-in/docker <<'S'
printf '%s\n' "$*" >>"$said"
case $1 in
  image) exit 0 ;;
  inspect) echo "${DOCKER_STARTED:-2026-01-01T00:00:00Z}"; exit 0 ;;
  rm) exit 0 ;;
esac
while [ $# -gt 0 ] && [ "$1" != some/image ]; do shift; done
shift
exec "$@"
S
chmod +x stand-in/docker
real_path=$PATH
export PATH=$PWD/stand-in:$PATH
# Named by its path: the launcher of a system-wide daemon removes containers only with the engine that root has
# configured.
cat >divvy.toml <<T
[container]
engine = "$PWD/stand-in/docker"
options = ["--shm-size=1g"]
T
divvy up --emulate 8xH100-80GB >/dev/null
code=0; divvy run --gpus 2 --image some/image -- sh -c 'echo "$CUDA_VISIBLE_DEVICES"; exit 5' >out.txt || code=$?
expect "5 2" "$code $(grep -o GPU- out.txt | wc -l)" "exit code and GPUs by docker's stand-in"
grep -q -- '^run --name=divvy-.* --network=host .* --shm-size=1g some/image sh -c' docker.said || fail "docker was asked: $(cat docker.said)"
grep -q -- '^rm -f divvy-' docker.said || fail "docker's container was left"
code=0; DOCKER_STARTED=0001-01-01T00:00:00Z divvy submit --wait --image some/image -- sh -c 'exit 125' >/dev/null || code=$?
expect 125 $code "docker's own failure"
divvy why @ | grep -q "docker could not start a container" || fail "it is not said whose failure it was: $(divvy why @)"
# The grace period ends before the stand-in does. The node removes the container.
: >docker.said
job=$(divvy submit --image some/image -- sh -c 'touch begun; exec sleep 300' | grep -oE '[0-9]+' | head -n 1)
wait_for "the container" test -e begun
divvy cancel --grace 0 "$job"
wait_for "its end" state_is "$job" cancelled
grep -q -- "^rm -f divvy-$job-1-" docker.said || fail "nobody removed the container: $(cat docker.said)"
code=0; divvy submit --image some/image.sqsh -- true 2>err.txt || code=$?
expect 2 $code "a file of enroot's is refused"
grep -q "is an enroot file" err.txt || fail "the refusal says: $(cat err.txt)"
divvy down >/dev/null
printf '[container]\nengine = "singularity"\n' >divvy.toml
divvy up --emulate 8xH100-80GB >/dev/null
code=0; divvy run --image some/image -- true 2>err.txt || code=$?
expect 127 $code "no such engine"
grep -q "containers run by singularity here" err.txt || fail "the engine that is missing: $(cat err.txt)"
divvy down >/dev/null

# --- podman -------------------------------------------------------------------------------------------------------------
PATH=$real_path
skip_podman() { echo "podman was not tried: $*"; exit 0; }
why=$(why_no_podman)
[ -z "$why" ] || skip_podman "$why"
configure_podman
begin_image sh sleep cat echo env id touch kill test true false pwd stat
touch rootfs/in-image
tar -C rootfs -c . | timeout 60 podman import - "$image" >import.txt 2>&1 || skip_podman "it imports no image here: $(tail -n 1 import.txt)"
remove_image() { podman rmi -f "$image" >/dev/null 2>&1 || true; clean_up; }
trap remove_image EXIT
timeout 60 podman run --rm --network=host --ipc=host --pid=host "$image" true >run.txt 2>&1 ||
  skip_podman "it runs no container here: $(tail -n 1 run.txt)"
# Lists only containers of this test's image: other containers may have the same names.
ours() { podman ps -aq --filter "ancestor=$image"; }
none_left() { [ -z "$(ours)" ]; }

printf '[container]\nengine = "podman"\n' >divvy.toml
divvy up --emulate 8xH100-80GB >/dev/null
code=0; divvy run --gpus 2 --image "$image" --env LR=0.5 -- sh -c 'echo $DIVVY_GPUS $LR; pwd; id -u; echo x >made; exit 7' >out.txt || code=$?
expect "7 0,1 0.5 $PWD $(id -u)" "$code $(xargs <out.txt)" "environment, directory, user and exit code"
expect "$(id -u)" "$(stat -c %u made)" "whose file it is"
expect "$(divvy run --gpus 1 -- sh -c 'echo $DIVVY_GPU_UUIDS')" \
  "$(divvy run --gpus 1 --image "$image" -- sh -c 'echo $CUDA_VISIBLE_DEVICES')" "the same GPU inside and outside"
expect "hello" "$(echo hello | divvy run --image "$image" -- cat)" "standard input"
mkdir data && echo seven >data/file
expect "seven /in ro" "$(divvy run --image "$image" --mount data:/in:ro --container-workdir /in -- sh -c 'cat file; pwd; touch x 2>/dev/null || echo ro' | xargs)" "mounts"

cat >script.sh <<'S'
#!/bin/sh -u
echo "$# $1 $(kill -l 9 >/dev/null 2>&1; echo inside)"
test -e /in-image && echo "the image's files"
exit 9
S
code=0; divvy submit --wait -o script.out --image "$image" script.sh one >/dev/null || code=$?
expect "9 1 one inside the image's files" "$code $(xargs -0 <script.out | tr '\n' ' ' | sed 's/ *$//')" "a script runs inside"
for own in 125 126 127; do
  code=0; divvy submit --wait --image "$image" -- sh -c "exit $own" >/dev/null || code=$?
  expect $own $code "the program's own $own"
  ! divvy why @ | grep -q "could not\|no program" || fail "the program's own $own is blamed on the engine: $(divvy why @)"
done
code=0; divvy submit --wait --image "$image" -- nosuch >/dev/null || code=$?
expect 127 $code "a program that is not there"
divvy why @ | grep -q "there is no program 'nosuch' in image" || fail "it is not said that it is missing: $(divvy why @)"
code=0; divvy submit --wait -o pull.out --image localhost:1/none:1 -- true >/dev/null || code=$?
expect 125 $code "an image that is not there"
grep -q "divvy: fetching image localhost:1/none:1" pull.out || fail "fetching is not in the log: $(cat pull.out)"

# Cancelled: the program gets the signal once, and its exit code counts.
job=$(divvy submit -o term.out --image "$image" -- sh -c 'trap "echo got; n=1" TERM; trap "echo usr2" USR2; n=0; echo up; while [ $n = 0 ]; do sleep 0.1; done; sleep 0.3; exit 3' | grep -oE '[0-9]+' | head -n 1)
wait_for "the container" grep -q up term.out
divvy signal USR2 "$job"
wait_for "a signal that podman's monitor would die of" grep -q usr2 term.out
divvy cancel "$job"
wait_for "its end" state_is "$job" cancelled
expect "up usr2 got" "$(grep -v "^Terminated\|^User" term.out | xargs)" "each signal once"
wait_for "the container's removal" none_left
# Killed: no process continues, and no container is left.
job=$(divvy submit -o kill.out --image "$image" -- sh -c 'trap "" TERM; echo up; while :; do sleep 0.1; done' | grep -oE '[0-9]+' | head -n 1)
wait_for "the container" grep -q up kill.out
divvy cancel --grace 1 "$job"
wait_for "its end" state_is "$job" cancelled
none_left || fail "left: $(ours)"

# Each task has its own container. A script outside starts a step of srun in one.
expect "0:1 1:1" "$(divvy run --tasks 2 --gpus-per-task 1 --gpu-bind single --image "$image" -- sh -c 'set -- $(echo $CUDA_VISIBLE_DEVICES); echo $RANK:$#' | sort | xargs)" "tasks"
mkdir bin && divvy shims bin >/dev/null
cat >step.sbatch <<S
#!/bin/bash
#SBATCH -n 2 --gres=gpu:2 -o step.out
PATH=$PWD/bin:\$PATH
test -e /in-image || echo outside
srun --container-image=$image sh -c 'test -e /in-image && echo rank \$SLURM_PROCID inside'
srun -n1 --container-image=$image sh -c 'exit 4'; echo \$?
S
bin/sbatch -W step.sbatch >/dev/null || fail "the script with steps in containers failed: $(cat step.out)"
expect "4 outside rank 0 inside rank 1 inside" "$(grep -v "^srun:" step.out | sort | xargs)" "steps in containers"
cat >inside.sbatch <<S
#!/bin/sh
#SBATCH --container-image=$image --container-mounts=$PWD/data:/in -o inside.out
cat /in/file; echo \$SLURM_JOB_ID
S
job=$(bin/sbatch --parsable -W inside.sbatch)
expect "seven $job" "$(xargs <inside.out)" "a script of sbatch's in a container"
none_left || fail "left: $(ours)"
echo "tested with podman: $(podman --version)"
