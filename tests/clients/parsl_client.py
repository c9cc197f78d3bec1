"""parsl's SlurmProvider with the HighThroughputExecutor: blocks of workers in jobs."""

import importlib.metadata

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def square(x):
    import os

    return x * x, os.environ["SLURM_JOB_ID"]


@parsl.bash_app
def say(text, stdout="said.txt"):
    return f"echo {text}"


provider = SlurmProvider(
    nodes_per_block=1, init_blocks=1, min_blocks=0, max_blocks=2, walltime="00:10:00", exclusive=False,
    scheduler_options="#SBATCH --gres=gpu:1", launcher=SrunLauncher(), cmd_timeout=30,
)  # fmt: skip
executor = HighThroughputExecutor(label="htex", address="127.0.0.1", max_workers_per_node=2, provider=provider)
with parsl.load(Config(executors=[executor], strategy="simple")):
    results = [future.result(timeout=120) for future in [square(i) for i in range(20)]]
    assert [value for value, _ in results] == [i * i for i in range(20)]
    assert say("hello", stdout="said.txt").result(timeout=120) == 0
with open("said.txt", encoding="utf-8") as file:
    assert file.read() == "hello\n"
jobs = {job for _, job in results}
print(f"parsl {importlib.metadata.version('parsl')}: 20 Python apps and a bash app in {len(jobs)} block(s)")
