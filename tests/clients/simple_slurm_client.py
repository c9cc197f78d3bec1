"""simple-slurm: builds scripts, submits them, an array, a dependency, and reads squeue."""

import importlib.metadata
import pathlib
import time

from simple_slurm import Slurm


def wait_for(holds, what):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)


output = f"{Slurm.JOB_ARRAY_MASTER_ID}_{Slurm.JOB_ARRAY_ID}.out"
slurm = Slurm(job_name="array", array=range(3), gres="gpu:1", time="00:10:00", output=output)
first = slurm.sbatch("echo element $SLURM_ARRAY_TASK_ID of $SLURM_JOB_NAME")
second = Slurm(dependency=dict(afterok=first), output="after.out").sbatch("echo after")
wait_for(lambda: pathlib.Path("after.out").exists() and pathlib.Path("after.out").read_text(), "the dependent job")
assert [pathlib.Path(f"{first}_{i}.out").read_text() for i in range(3)] == [f"element {i} of array\n" for i in range(3)]
assert second > first
waiting = Slurm(job_name="later", begin="now+1hour")
job = waiting.sbatch("true")
waiting.squeue.update_squeue()
row = waiting.squeue.jobs[job]
assert (row["NAME"], row["ST"], row["NODES"], row["NODELIST(REASON)"]) == ("later", "PD", "1", "(BeginTime)"), row
waiting.scancel.cancel_job(job)


def is_gone():
    waiting.squeue.update_squeue()
    return job not in waiting.squeue.jobs


wait_for(is_gone, "the cancellation")
print(f"simple-slurm {importlib.metadata.version('simple-slurm')}: array, dependency, squeue and scancel")
