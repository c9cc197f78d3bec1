"""Hydra's submitit launcher: a multirun of four jobs."""

import importlib.metadata
import pathlib
import subprocess
import sys

pathlib.Path("conf").mkdir()
pathlib.Path("conf/config.yaml").write_text(
    "defaults:\n  - override hydra/launcher: submitit_slurm\nlr: 0.1\nseed: 0\n"
    "hydra:\n  launcher:\n    timeout_min: 10\n    gpus_per_node: 1\n    array_parallelism: 2\n    mem_gb: 1\n"
)
pathlib.Path("train.py").write_text(
    "import os, hydra, hydra.core.hydra_config\n"
    "@hydra.main(version_base=None, config_path='conf', config_name='config')\n"
    "def main(cfg):\n"
    "    open(hydra.core.hydra_config.HydraConfig.get().runtime.output_dir + '/result', 'w').write(f\"{cfg.lr} {cfg.seed} {len(os.environ['CUDA_VISIBLE_DEVICES'].split(','))}\")\n"
    "    return cfg.lr\n"
    "if __name__ == '__main__':\n    main()\n"
)
subprocess.run([sys.executable, "train.py", "-m", "lr=0.1,0.2", "seed=1,2"], check=True)
got = sorted(path.read_text() for path in pathlib.Path("multirun").glob("*/*/*/result"))
assert got == ["0.1 1 1", "0.1 2 1", "0.2 1 1", "0.2 2 1"], got
print(f"hydra-submitit-launcher {importlib.metadata.version('hydra-submitit-launcher')}: four runs with a GPU each")
