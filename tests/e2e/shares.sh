#!/usr/bin/env bash
# GPU fractions, with real processes on emulated GPUs: spread, and packed again when a whole-GPU job arrives; resized,
# parked, woken and moved while they run, through kill -9 of the daemon and of the keeper. A process that checks its
# memory all the time finds it intact.
. "$(dirname "$0")/lib.sh"
command -v divvy-burn >/dev/null || fail "divvy-burn lies beside divvy"
divvy up --quiet --emulate 2xH100-80GB

# gpus_of JOB: prints the GPUs that the job is on at this moment. tenant JOB FIELD
gpus_of() {
  divvy gpus --json | python3 -c 'import json, sys
print(" ".join(str(g["index"]) for g in json.load(sys.stdin) if int(sys.argv[1]) in g["jobs"]))' "$1"
}
tenant() {
  divvy gpus --json | python3 -c 'import json, sys
for gpu in json.load(sys.stdin):
  for one in gpu["tenants"]:
    if one["job"] == int(sys.argv[1]): print(one[sys.argv[2]]); sys.exit()' "$1" "$2"
}
tenant_is() { [ "$(tenant "$1" "$2")" = "$3" ]; }
has_memory() { [ "$(tenant "$1" used_bytes)" -ge 1000000000 ] 2>/dev/null; }
are_spread() { [ "$(gpus_of "$1")" != "$(gpus_of "$2")" ] && [ -n "$(gpus_of "$1")" ] && [ -n "$(gpus_of "$2")" ]; }
keeper_pid() { pgrep -f "divvy keeper --directory $runs" | head -n 1; }
burn() { divvy submit --quiet "$@" -- divvy-burn --gpu-seconds 600 --vram 1G --check; }

a=$(burn --name a --gpus 0.5 --gpu-limit 1.0)
b=$(burn --name b --gpus 0.5 --gpu-limit 1.0)
wait_for "a's memory" has_memory "$a"
wait_for "b's memory" has_memory "$b"
are_spread "$a" "$b" || fail "two notebooks are not spread over two GPUs"
[ "$(field "$a" gpus)" = "$(field "$b" gpus)" ] || fail "on paper they are on two GPUs"

# A whole-GPU job arrives: it starts, and both tenants are on one GPU.
whole=$(divvy submit --quiet --gpus 1 -- sh -c 'while [ ! -e whole-may-end ]; do sleep 0.05; done')
wait_for "the whole-GPU job" state_is "$whole" running
are_packed() { [ -n "$(gpus_of "$a")" ] && [ "$(gpus_of "$a")" = "$(gpus_of "$b")" ]; }
wait_for "both on one GPU" are_packed
# All commands show the present GPU of a moved tenant, and its history shows the move.
real() { divvy queue --json | python3 -c 'import json, sys
print(" ".join(str(gpu["gpu"]) for job in json.load(sys.stdin) if job["id"] == int(sys.argv[1]) for gpu in job["share"]["gpus"]))' "$1"; }
for job in "$a" "$b"; do
  expect "$(gpus_of "$job")" "$(real "$job")" "the GPU of $job in the queue"
  divvy why "$job" | grep -q "on GPU $(gpus_of "$job")" || fail "why says: $(divvy why "$job")"
  divvy show "$job" | grep -q "^share .*enforced by interposer" || fail "show says: $(divvy show "$job")"
done
has_history() { { divvy show "$a"; divvy show "$b"; } | grep -q "moved from GPU . to GPU ."; }
wait_for "the move in a history" has_history
grep -q "event=share job=.* what=\"moved from" "$DIVVY_HOME"/daemon.log || fail "daemon.log tells of no move"
[ "$(gpus_of "$whole")" != "$(gpus_of "$a")" ] || fail "a whole GPU has tenants"
state_is "$a" running && state_is "$b" running || fail "somebody was killed"

# A share can change while the job runs, but not beyond what the other tenant's guarantee leaves.
divvy resize "$a" --gpus 0.25 --gpu-limit 0.4 >/dev/null
wait_for "the smaller share" tenant_is "$a" share "0.25 to 0.4"
! divvy resize "$b" --gpus 0.8 2>message || fail "a share grew into another's"
grep -q "has room for 0.75 next to" message || fail "says: $(cat message)"
divvy resize "$b" --gpus 0.75 >/dev/null
expect "job $b: has 0.75 to 1 of its GPU, 0.5 of its time" "$(divvy resize "$b" --compute 0.5)" "what is not said stays"
! divvy resize "$b" --gpus 0.001 2>message || fail "less than a context needs is taken"
grep -q "request at least --gpus 0.0065 or --gpu-memory 512M" message || fail "says: $(cat message)"
! divvy submit --gpu-memory 0 -- true 2>message || fail "no memory is a part"
! divvy submit --gpu-memory 20G --gpu-memory-limit 200G -- true 2>message || fail "more than the card has is a limit"
grep -q "is the maximum" message || fail "says: $(cat message)"

touch whole-may-end
wait_for "the whole-GPU job's end" state_is "$whole" succeeded

# Moved there and back faster than any sample: the history has both moves. A tenant that is being moved cannot be moved
# again. On a slow machine the keeper spreads the tenants again meanwhile.
for to in 0 1 0; do wait_for "a to be moved to GPU $to" divvy move "$a" --to $to; done
is_on() { [ "$(gpus_of "$a")" = "$1" ]; }
wait_for "a to be where it was moved last" is_on 0
stays() { divvy move "$a" --to "$(gpus_of "$a")" | grep -q "already on GPU"; }
wait_for "the word that it is there" stays
has_both() { divvy show "$a" | grep -q "moved from GPU 0 to GPU 1" && divvy show "$a" | grep -q "moved from GPU 1 to GPU 0"; }
wait_for "both moves in its history" has_both

# Parked while it is idle: it has no memory on the GPU, and the process stays alive. When woken it is back on its GPU.
c=$(divvy submit --quiet --name c --gpus 0.25 -- divvy-burn --gpu-seconds 600 --vram 1G --check --idle-after 0.2 --wake-after 3600)
wait_for "c to be idle" sh -c "divvy logs $c | grep -q idle"
divvy park "$c" >/dev/null
wait_for "it is parked" tenant_is "$c" state parked
expect 0 "$(tenant "$c" used_bytes)" "bytes of a parked tenant on the GPU"
divvy show "$c" | grep -q "on the host" || fail "show says: $(divvy show "$c")"
divvy why "$c" | grep -q "It is parked: its GPU memory is on the host" || fail "why says: $(divvy why "$c")"
# A parked tenant does not waste a GPU: its use is unknown.
has_no_use() { ! divvy metrics --prometheus | grep "^divvy_job_gpu_utilization_ratio" | grep -q "\"$c\""; }
wait_for "no use of the parked one" has_no_use
divvy queue | grep -qE "^ *$c .* host .*parked on the host: on request" || fail "the queue says: $(divvy queue)"
divvy wake "$c" >/dev/null
wait_for "it is back" has_memory "$c"
divvy show "$c" | grep -q "its GPU memory went to the host: on request" || fail "show says: $(divvy show "$c")"
# An idle tenant is shown with no GPU time, and a paused one is parked.
tenant_has_no_time() { [ "$(tenant "$1" compute)" = 0.0 ] || [ "$(tenant "$1" compute)" = 0 ]; }
wait_for "an idle one's time" tenant_has_no_time "$c"
divvy pause "$c" >/dev/null
wait_for "a paused one is parked" tenant_is "$c" state parked
divvy resume "$c" >/dev/null
divvy wake "$c" >/dev/null
wait_for "it is back" has_memory "$c"
# In 80 columns, a row shows job, user and enforcement. Machine-readable output has one line for each tenant.
screen=$(script -qec "stty cols 80; NO_COLOR=1 divvy gpus" /dev/null | tr -d '\r')
echo "$screen" | grep -qE "^ +$c +c +$(id -un) " || fail "80 columns show: $screen"
echo "$screen" | grep -q "enforced by interposer" || fail "80 columns show: $screen"
[ "$(echo "$screen" | wc -L)" -le 80 ] || fail "80 columns are exceeded: $screen"
divvy gpus --csv | grep -qE ",$c,.*c of $(id -un): 0.25" || fail "csv: $(divvy gpus --csv)"
divvy gpus -o gpu,state,who | grep -q "c of $(id -un): 0.25; enforced by interposer" || fail "columns: $(divvy gpus -o gpu,state,who)"
divvy signal TERM "$c" >/dev/null
wait_for "c's end" state_is "$c" succeeded
divvy logs "$c" | grep -q "errors=0" || fail "memory of $c: $(divvy logs "$c")"

other=$((1 - $(gpus_of "$a")))
divvy move "$a" --to $other >/dev/null
is_on() { [ "$(gpus_of "$1")" = "$2" ]; }
wait_for "it is where it was moved to" is_on "$a" $other

# The keeper and the daemon are killed. No other process notices.
old=$(keeper_pid)
kill -9 "$old"
wait_for "another keeper" sh -c "[ -n \"\$(pgrep -f 'divvy keeper --directory $runs' | grep -v '^$old\$')\" ]"
divvy move "$a" --to $((1 - other)) >/dev/null
pid=$(daemon_pid)
kill -9 "$pid"
wait_for "the daemon's end" sh -c "! kill -0 $pid"
divvy up --quiet --emulate 2xH100-80GB
wait_for "what is shared is known again" has_memory "$a"
divvy move "$a" --to $other >/dev/null

# Tenants leave a restricted GPU, or one that others use, at once. When it is available again, they may stay on it.
at=$(gpus_of "$a")
divvy gpus restrict $((1 - at)) >/dev/null
wait_for "it leaves the restricted GPU" is_on "$a" $((1 - at))
wait_for "and so does the other" is_on "$b" $((1 - at))
! divvy move "$a" --to "$at" 2>message || fail "it was moved to a restricted GPU"
grep -q "is restricted" message || fail "says: $(cat message)"
divvy gpus restrict all >/dev/null
divvy emulate add-process $((1 - at)) $$ 2GiB
wait_for "it leaves the GPU that a stranger uses" is_on "$a" "$at"
divvy emulate remove-process $((1 - at)) $$
divvy signal TERM "$a" "$b" >/dev/null
wait_for "the end of all" queue_is_empty
for job in "$a" "$b"; do
  divvy logs "$job" | grep -q "errors=0" || fail "memory of $job: $(divvy logs "$job")"
done

# A process that clears its environment and bypasses the library is detected through its ancestor processes.
hidden=$(divvy submit --quiet --gpus 0.25 -- sh -c 'env -i PATH="$PATH" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" DIVVY_EMULATE="$DIVVY_EMULATE" \
  divvy-burn --vram 30G --hold 600; true')
wait_for "the word that nothing holds it to its share" tenant_is "$hidden" mechanism advisory
divvy gpus | grep -q "1 process outside the sharing library" || fail "gpus says: $(divvy gpus)"

# A tenant that is moved before its program initialises CUDA (while it imports or reads its data) starts on the new GPU.
late=$(divvy submit --quiet --name late --gpus 0.5 -- sh -c 'while [ ! -e late-may-begin ]; do sleep 0.05; done; exec divvy-burn --gpu-seconds 600 --vram 1G --check')
wait_for "it to run" state_is "$late" running
at=$(gpus_of "$late")
divvy move "$late" --to $((1 - at)) >/dev/null
wait_for "it is where it was moved to" is_on "$late" $((1 - at))
# Use of the GPU that it has left is not counted for it.
divvy emulate utilisation "$at" 100
late_is_idle() { curl -s --unix-socket "$DIVVY_HOME/divvy.sock" http://divvy/v1/latest | python3 -c 'import json, sys
print(*(job["values"].get("gpu_utilization") for job in json.load(sys.stdin)["jobs"] if job["id"] == int(sys.argv[1])))' "$late" | grep -qxE "0(\.0)?"; }
wait_for "its own use" late_is_idle
divvy emulate utilisation "$at" 0
touch late-may-begin
wait_for "its memory" has_memory "$late"
where_it_is() { divvy metrics "$late" --processes --json | python3 -c 'import json, sys
print(*(gpu["gpu"] for gpu in json.load(sys.stdin)["gpus"] if any(one["id"] == int(sys.argv[1]) for one in gpu["processes"])))' "$late"; }
uses_gpu() { [ "$(where_it_is)" = "$1" ]; }
wait_for "its process on the GPU that it has" uses_gpu $((1 - at))
divvy signal TERM "$late" >/dev/null
wait_for "its end" state_is "$late" succeeded
divvy logs "$late" | grep -q "errors=0" || fail "its memory: $(divvy logs "$late")"

# A job that could not start reports the reason to the client that waits for it.
if ! command -v nvidia-cuda-mps-control >/dev/null; then
  divvy run --gpus 0.5 --mps -- true </dev/null >said 2>&1 && fail "a job with MPS runs where there is none"
  grep -q "nvidia-cuda-mps-control is not installed" said || fail "run says of a job that could not begin: $(cat said)"
fi
