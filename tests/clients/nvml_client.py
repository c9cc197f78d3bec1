"""nvitop, gpustat and nvidia-ml-py inside a job, on the emulated NVML."""

import subprocess
import sys

PROGRAM = """
import importlib.metadata, json, subprocess
import pynvml, gpustat, nvitop
pynvml.nvmlInit()
assert pynvml.nvmlDeviceGetCount() == 8
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
assert "H100" in pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetName(handle)
assert pynvml.nvmlDeviceGetMemoryInfo(handle).total > 75 << 30
pynvml.nvmlShutdown()
gpus = gpustat.new_query()
assert len(gpus) == 8 and gpus[0].memory_total > 75_000, gpus
json.dumps(gpus.jsonify(), default=str)
devices = nvitop.Device.all()
assert len(devices) == 8
seen = [(d.name(), d.memory_total_human(), d.gpu_utilization(), d.temperature(), d.processes()) for d in devices]
assert "H100" in seen[0][0], seen[0]
shown = subprocess.run(["nvitop", "--once", "--no-unicode"], stdout=subprocess.PIPE, text=True, check=True).stdout
assert shown.count("H100") >= 8, shown
shown = subprocess.run(["gpustat", "--no-color"], stdout=subprocess.PIPE, text=True, check=True).stdout
assert shown.count("H100") == 8, shown
for name in ("nvidia-ml-py", "gpustat", "nvitop"):
    print(name, importlib.metadata.version(name), "counts 8 GPUs with names, memory and processes")
"""
ran = subprocess.run(
    ["divvy", "run", "--gpus", "8", "--", sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, check=False
)
print(ran.stdout, end="")
sys.exit(ran.returncode)
