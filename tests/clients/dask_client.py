"""dask-jobqueue: a cluster of workers in jobs, scaled and adaptive."""

import importlib.metadata
import subprocess

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def main():
    with SLURMCluster(
        cores=1, memory="1GB", processes=1, walltime="00:10:00", job_extra_directives=["--gres=gpu:1"], interface="lo"
    ) as cluster, Client(cluster) as client:
        cluster.scale(2)
        client.wait_for_workers(2, timeout=120)
        assert client.gather(client.map(lambda x: x * x, range(10))) == [x * x for x in range(10)]
        print("scale(2): 10 results")
        cluster.adapt(minimum=0, maximum=3)
        assert sum(client.gather(client.map(lambda x: x + 1, range(50)))) == sum(range(1, 51))
        print("adapt(0, 3): 50 results")
    left = subprocess.run(["squeue", "-h", "-t", "PD,R"], stdout=subprocess.PIPE, text=True, check=True).stdout
    print(f"dask-jobqueue {importlib.metadata.version('dask-jobqueue')}; jobs after close: {len(left.splitlines())}")


if __name__ == "__main__":
    main()
