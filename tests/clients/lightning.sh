# PyTorch Lightning: its environment for Slurm with two ranks, and the automatic requeue on the signal before the limit.
set -eu
# The model is on the CPU: emulated GPUs do not run PyTorch.
cat >train.py <<'END'
import os
import time
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.environments import SLURMEnvironment


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        time.sleep(0.02)
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Watch(pl.Callback):
    def on_train_start(self, trainer, module):
        self.first = trainer.global_step
        print(f"rank {trainer.global_rank} of {trainer.world_size} starts at {self.first}", flush=True)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if trainer.global_step == self.first + 5:
            print("trains", flush=True)
        if os.environ.get("SLURM_RESTART_COUNT") == "1" and trainer.global_step >= self.first + 5:
            trainer.should_stop = True


data = torch.utils.data.DataLoader(torch.randn(100_000, 4), batch_size=2)
trainer = pl.Trainer(
    accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_epochs=1, callbacks=[Watch()], logger=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=os.getcwd(),
    plugins=[SLURMEnvironment(auto_requeue=True)],
)
trainer.fit(Model(), data)
print(f"done at {trainer.global_step}", flush=True)
END
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --nodes=1 --ntasks-per-node=2 --time=30 --signal=SIGUSR1@90 --requeue
#SBATCH --output=lightning.out --open-mode=append
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
srun python train.py
END
id=$(sbatch --parsable job.sh)
saw() {
  for _ in $(seq 1500); do grep -q "$1" lightning.out 2>/dev/null && return; sleep 0.1; done
  cat lightning.out; exit 1
}
saw "^trains"
scancel --signal=USR1 "$id"
saw "requeu"
saw "^done at"
for _ in $(seq 600); do [ "$(sacct -n -X -P -o State -j "$id")" = COMPLETED ] && break; sleep 0.1; done
[ "$(sacct -n -X -P -o State,Restarts -j "$id")" = "COMPLETED|1" ] || { sacct -j "$id"; cat lightning.out; exit 1; }
[ "$(grep -c 'of 2 starts at 0$' lightning.out)" = 2 ] || { cat lightning.out; exit 1; }
[ "$(grep -c 'of 2 starts at [1-9]' lightning.out)" = 2 ] || { cat lightning.out; exit 1; }
version() { python -c "import importlib.metadata as m; print(m.version('$1'))"; }
echo "pytorch-lightning $(version pytorch-lightning): two ranks, a requeue on USR1, continued from its checkpoint"
