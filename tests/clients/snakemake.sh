# snakemake with its executor plugin for Slurm: a workflow of four jobs, an array of them, and a failing job.
set -eu
cat >Snakefile <<'END'
rule all:
    input: "sum.txt"
rule part:
    output: "part{i}.txt"
    resources: gpu=1, runtime=10, mem_mb=2000
    shell: "echo {wildcards.i} $SLURM_JOB_ID > {output}"
rule sum:
    input: expand("part{i}.txt", i=range(3))
    output: "sum.txt"
    resources: runtime=10, mem_mb=2000
    shell: "cat {input} > {output}"
rule fails:
    output: "never.txt"
    resources: runtime=10, mem_mb=2000
    shell: "exit 3"
END
run() { snakemake --executor slurm --jobs 4 --default-resources slurm_partition=main \
  --slurm-init-seconds-before-status-checks 1 --seconds-between-status-checks 1 --latency-wait 5 "$@"; }
if ! run sum.txt >run.log 2>&1; then cat run.log; exit 1; fi
[ "$(cut -d' ' -f1 sum.txt | xargs)" = "0 1 2" ] || { cat run.log; exit 1; }
[ "$(cut -d' ' -f2 sum.txt | sort -u | wc -l)" = 3 ] || { echo "not three jobs:"; cat sum.txt; exit 1; }
rm -f part*.txt sum.txt
# With sacct the plugin searches for the id of the array in JobIDRaw, which no element has here.
if ! run --slurm-status-command squeue --slurm-array-jobs all --slurm-array-limit 20 sum.txt >array.log 2>&1; then cat array.log; exit 1; fi
[ "$(cut -d' ' -f1 sum.txt | xargs)" = "0 1 2" ] || { cat array.log; exit 1; }
if run never.txt >fails.log 2>&1; then echo "a failing job was not reported"; exit 1; fi
grep -q "status is: 'FAILED'" fails.log || { cat fails.log; exit 1; }
version() { python -c "import importlib.metadata as m; print(m.version('$1'))"; }
echo "snakemake $(version snakemake), executor plugin $(version snakemake-executor-plugin-slurm): jobs, an array, a failure"
