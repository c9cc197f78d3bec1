# RichQueue, which reads `squeue --json` and `sacct --json` in the schema of Slurm 23.11.
set -eu
export COLUMNS=200 TERM=dumb DIVVY_SLURM_JSON=v0.0.40
sbatch --wait --job-name done-well --gpus 1 --wrap true >/dev/null
if sbatch --wait --job-name done-badly --wrap "exit 3" >/dev/null; then exit 1; fi
running=$(sbatch --parsable --job-name runs --gpus 2 --time 30 --wrap "sleep 600")
sbatch --job-name waits --gpus 8 --time 30 --wrap "sleep 600" >/dev/null
for _ in $(seq 600); do [ "$(squeue -h -j "$running" -o %T)" = RUNNING ] && break; sleep 0.05; done
shows() { grep -qE "$1" queue || { cat queue; echo "RichQueue does not show '$1'"; exit 1; }; }
rq --no-loop --long >queue
shows "runs .* 30m .* Running"
shows "waits .* 30m "
rq --no-loop --hist 1 >queue
shows "done-well .* Completed"
shows "done-badly .* Failed"
scancel --me
echo "RichQueue: running, waiting and ended jobs"
