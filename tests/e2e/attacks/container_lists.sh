#!/usr/bin/env bash
# A job's own list of its containers, which the daemon reads when the job ends: alice makes it long.
. "$(dirname "$0")/lib.sh"
serve
daemon=$(daemon_pid)

# 4 MiB of distinct lines. The daemon answers all the same.
for line in "env =%d" "begun divvy-1-1-%d" "ended %d"; do
  script_of alice long.py <<P
#!/usr/bin/python3
import os
open(os.environ["DIVVY_STEPS"] + ".containers", "w").write("".join("$line\n" % n for n in range(100000, 480000))[:4 << 20])
P
  job=$(as alice divvy submit --quiet --gpus 1 -- ./long.py)
  # One that is at work on the list would keep the end of this test waiting.
  timeout 20 divvy wait "$job" >/dev/null || { kill -9 "$daemon"; fail "the daemon does not answer after a list of '$line'"; }
done
used=$(awk '{ print $14 + $15 }' "/proc/$daemon/stat")
[ "$used" -lt 300 ] || fail "the daemon has used $((used / 100)) s of CPU time for three lists"
