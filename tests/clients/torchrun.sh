# torchrun on two nodes of a job, with two processes each: the rendezvous through SLURM_JOB_NODELIST, and gloo.
set -eu
. "$(dirname "$0")/nodes.sh"
cat >reduce.py <<'END'
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
# One write, because all processes share the file.
os.write(1, f"{rank} of {world}: {total.item():.0f} GPUs {os.environ['CUDA_VISIBLE_DEVICES']}\n".encode())
dist.destroy_process_group()
END
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2 --time=10 --output=torchrun.out
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
# The nodes of this test are agents on one machine, whose names are no hosts.
head=$(scontrol getaddrs "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)" | cut -d' ' -f2 | cut -d: -f1)
srun torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node=2 --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d \
  --rdzv-endpoint="$head:$((20000 + SLURM_JOB_ID))" reduce.py
END
sbatch --wait job.sh >/dev/null || { cat torchrun.out; exit 1; }
[ "$(sort torchrun.out | grep -c '^[0-3] of 4: 10 GPUs')" = 4 ] || { cat torchrun.out; exit 1; }
echo "torchrun $(python -c 'import torch; print(torch.__version__)'): two nodes with two processes each, all_reduce over gloo"
