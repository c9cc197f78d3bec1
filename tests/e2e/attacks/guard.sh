#!/usr/bin/env bash
# A guard that took over from a killed supervisor knows neither the job's user nor its mounts. A step that it started
# would run as root, with a library of the caller's choice.
. "$(dirname "$0")/lib.sh"
command -v cc >/dev/null || skip "no C compiler"
serve
ln -s divvy /var/lib/bin/srun
as alice sh -c 'cat >owns.c && cc -shared -fPIC -o owns.so owns.c' <<'S'
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void Own(void) { if (geteuid() == 0) open("/var/lib/home/alice/owned", O_CREAT, 0600); }
S
for options in "" --private-tmp; do
  job=$(as alice divvy submit --quiet $options -- sleep 1000)
  wait_for "the job" state_is "$job" running
  # Killed by root, or because memory ran out.
  kill -9 "$(sed -n 's/^supervisor=\([0-9]*\) .*/\1/p' "/var/lib/divvy-launcher/runs/$job")"
  wait_for "its guard" sh -c "[ \$(grep -c ^supervisor= /var/lib/divvy-launcher/runs/$job) = 2 ]"
  as alice LD_PRELOAD=/var/lib/home/alice/owns.so srun --jobid="$job" id -u >said 2>&1 && fail "a guard started a step: $(cat said)"
  [ ! -e /var/lib/home/alice/owned ] || fail "a guard ran alice's library as root"
  grep -q "its supervisor was killed" said || fail "the refusal says: $(cat said)"
  end_jobs
done
