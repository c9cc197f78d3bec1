# Ray in an allocation: the recipes of its documentation. A head and workers as steps, with ray start; and one command on
# each node, ray symmetric-run, which finds the head by its IP address and so cannot have two nodes on one machine.
set -eu
cat >tasks.py <<'END'
import os, time
import ray
ray.init(address=os.environ["head"])
end = time.monotonic() + 120
while len([node for node in ray.nodes() if node["Alive"]]) < int(os.environ["nodes"]):
    assert time.monotonic() < end, ray.nodes()
    time.sleep(0.2)
@ray.remote(num_cpus=0, num_gpus=1)
def visible(i):
    return i, os.environ["CUDA_VISIBLE_DEVICES"]
seen = ray.get([visible.remote(i) for i in range(8)])
assert [i for i, _ in seen] == list(range(8)), seen
print("resources", ray.cluster_resources().get("GPU"))
END
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --ntasks=2 --gpus-per-task=2 --time=10 --output=ray.out
export RAY_DISABLE_DOCKER_CPU_WARNING=1 RAY_USAGE_STATS_ENABLED=0
hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
port=$((20000 + RANDOM % 10000))
export head=127.0.0.1:$port nodes=2
srun --nodes=1 --ntasks=1 --gpus=2 -w "${hosts[0]}" ray start --head --node-ip-address=127.0.0.1 --port="$port" \
  --num-cpus=1 --num-gpus=2 --include-dashboard=false --block >head.log 2>&1 &
for _ in $(seq 600); do ray health-check --address "$head" >/dev/null 2>&1 && break; sleep 0.2; done
srun --nodes=1 --ntasks=1 --gpus=2 -w "${hosts[0]}" ray start --address "$head" --num-cpus=1 --num-gpus=2 --block \
  >worker.log 2>&1 &
python tasks.py
END
timeout 300 sbatch --wait job.sh >submitted || { cat ray.out head.log worker.log; exit 1; }
grep -q "^resources 4.0$" ray.out || { cat ray.out; exit 1; }

cat >symmetric.sh <<'END'
#!/bin/bash
#SBATCH --ntasks=1 --gpus-per-task=4 --time=10 --output=symmetric.out
export RAY_DISABLE_DOCKER_CPU_WARNING=1 RAY_USAGE_STATS_ENABLED=0
export head=127.0.0.1:$((20000 + RANDOM % 10000)) nodes=1
srun --ntasks=1 --gpus=4 ray symmetric-run --address "$head" --min-nodes 1 --num-cpus=1 --num-gpus=4 -- python tasks.py
END
timeout 300 sbatch --wait symmetric.sh >submitted || { cat symmetric.out; exit 1; }
grep -q "^resources 4.0$" symmetric.out || { cat symmetric.out; exit 1; }
echo "ray $(python -c 'import ray; print(ray.__version__)'): a head and a worker as steps, and symmetric-run; tasks with a GPU each"
