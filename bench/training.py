#!/usr/bin/env python3
"""PyTorch, JAX and CuPy programs for bench/shares. They print their progress every 50 steps, and at the end a digest
of the results.

    training.py PROGRAM STEPS

plain, graph, compile   a PyTorch training: eager, as a CUDA graph, with torch.compile
plain-small             the eager one with 1 GiB of extra memory instead of 6
expandable, async       the same, eager, with the virtual-memory allocator (expandable segments) or the driver's pools
cache                   PyTorch: blocks of a key-value cache that sequences take, fill, read and free in random order
nccl                    PyTorch: two ranks on two GPUs that add up a tensor by NCCL in each step
spawn                   PyTorch: two child processes with a training each; prints the digest of both
jax, cupy               a JAX training; matrix products with CuPy
fill ALLOCATOR          PyTorch (plain, expandable, async) or jax, cupy: allocates until it is refused, prints how much
                        it got, and continues with less after SIGUSR1

Each has extra memory beyond its working set and reports at the end whether that is intact."""
import gc
import hashlib
import os
import random
import signal
import struct
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch needs this to be deterministic.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")
ALLOCATORS = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
KEPT_WORDS = {"plain": 3 << 29, "graph": 3 << 29, "compile": 3 << 29, "plain-small": 1 << 28, "expandable": 1 << 28, "async": 1 << 28}
MIB = 1 << 20


class Digest:
    def __init__(self, steps):
        self.steps = steps
        self.hash = hashlib.sha256()

    def add(self, number, value):
        """Adds the value of step `number`. Calls value(), which waits for the GPU, only for steps that are reported."""
        if number % 50 == 0 or number == self.steps - 1:
            self.hash.update(struct.pack("d", float(value())))
            print(f"step {number}", flush=True)

    def close(self, is_intact):
        print(f"losses {self.hash.hexdigest()} memory {'intact' if is_intact else 'DAMAGED'}", flush=True)


def train(program, steps):
    import torch

    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    words = KEPT_WORDS[program]
    kept = torch.arange(words, device="cuda", dtype=torch.int32)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
    ).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=program == "graph")
    forward = torch.compile(model) if program == "compile" else model
    inputs, targets = torch.randn(512, 1024, device="cuda"), torch.randn(512, 1024, device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=False)
        loss = ((forward(inputs) - targets) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss

    if program == "graph":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()

    digest = Digest(steps)
    for number in range(steps):
        if program == "graph":
            graph.replay()
        else:
            loss = step()
        digest.add(number, loss.item)
    digest.close(bool((kept == torch.arange(words, device="cuda", dtype=torch.int32)).all()))


def cache(steps):
    import torch

    draw = random.Random(7)
    sequences, digest, is_intact = {}, Digest(steps), True
    for number in range(steps):
        if len(sequences) == 64 or (sequences and draw.random() < 0.3):
            mark, blocks = sequences.pop(draw.choice(sorted(sequences)))
            is_intact = is_intact and all(bool((block == mark + place).all()) for place, block in enumerate(blocks))
        else:
            mark, blocks = sequences.setdefault(number, (number, []))
        for _ in range(draw.randrange(1, 8)):
            blocks.append(torch.full((draw.randrange(1, 9) * MIB,), mark + len(blocks), device="cuda", dtype=torch.int32))
        digest.add(number, lambda: sum(block[-1].item() for _, blocks in sequences.values() for block in blocks))
        del blocks
    digest.close(is_intact)


def spawn(steps):
    import subprocess

    children = [subprocess.Popen([sys.executable, __file__, "expandable" if n else "plain-small", str(steps)], stdout=subprocess.PIPE, text=True) for n in range(2)]
    for line in children[0].stdout:
        if line.startswith("step"):
            print(line, end="", flush=True)
        else:
            first = line
    second = children[1].communicate()[0].split("\n")[-2]
    both = first + second
    print(f"losses {hashlib.sha256(both.encode()).hexdigest()} memory {'DAMAGED' if 'DAMAGED' in both else 'intact'}", flush=True)


def nccl(steps):
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, f"nccl-{rank}", str(steps), f"{folder}/meeting"]) for rank in range(2)]
        sys.exit(max(rank.wait() for rank in ranks))


def one_rank(rank, steps):
    import torch

    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=2)
    kept = torch.arange(1 << 26, device="cuda", dtype=torch.int32)
    sums = torch.full((1 << 20,), float(rank + 1), device="cuda")
    digest = Digest(steps)
    for number in range(steps):
        torch.distributed.all_reduce(sums)
        sums.mul_(0.501)
        if rank == 0:
            digest.add(number, sums[0].item)
    is_intact = bool((kept == torch.arange(1 << 26, device="cuda", dtype=torch.int32)).all())
    if rank == 0:
        digest.close(is_intact)
    torch.distributed.destroy_process_group()
    return 0 if is_intact else 1


def train_jax(steps):
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(7), 4)
    kept = jnp.arange(1 << 28, dtype=jnp.int32)
    weights = [jax.random.normal(keys[0], (1024, 4096)) * 0.02, jax.random.normal(keys[1], (4096, 1024)) * 0.02]
    inputs, targets = jax.random.normal(keys[2], (512, 1024)), jax.random.normal(keys[3], (512, 1024))

    def loss_of(weights):
        return ((jax.nn.gelu(inputs @ weights[0]) @ weights[1] - targets) ** 2).mean()

    @jax.jit
    def step(weights):
        loss, slopes = jax.value_and_grad(loss_of)(weights)
        return [w - 0.01 * s for w, s in zip(weights, slopes)], loss

    digest = Digest(steps)
    for number in range(steps):
        weights, loss = step(weights)
        digest.add(number, lambda: loss)
    digest.close(bool((kept == jnp.arange(1 << 28, dtype=jnp.int32)).all()))


def train_cupy(steps):
    import cupy

    kept = cupy.arange(1 << 28, dtype=cupy.int32)
    cupy.random.seed(7)
    matrix = cupy.random.standard_normal((2048, 2048), dtype=cupy.float32)
    vector = cupy.random.standard_normal((2048, 64), dtype=cupy.float32)
    digest = Digest(steps)
    for number in range(steps):
        vector = matrix @ vector
        vector /= cupy.abs(vector).max()
        digest.add(number, vector.sum)
    digest.close(bool((kept == cupy.arange(1 << 28, dtype=cupy.int32)).all()))


def fill(allocator):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # Must happen before any thread starts.
    pieces = []
    if allocator == "jax":
        import jax.numpy as library
    elif allocator == "cupy":
        import cupy as library
    else:
        import torch as library
    where = {"device": "cuda"} if library.__name__ == "torch" else {}
    try:
        while True:
            piece = library.ones((64 * MIB,), dtype=library.float32, **where)
            if allocator == "jax":
                piece.block_until_ready()
            pieces.append(piece)
    except Exception as error:  # Each framework has its own exception class for this.
        if "out of memory" not in str(error).lower():
            raise
        print(f"refused by {type(error).__name__}", flush=True)
    print(f"filled {len(pieces) * 256 * MIB} bytes", flush=True)
    signal.sigwait({signal.SIGUSR1})
    del pieces[:]
    gc.collect()
    after = float(library.ones((64 * MIB,), dtype=library.float32, **where).sum())
    print(f"went on: {after:.0f}", flush=True)


def main():
    program, last = sys.argv[1], sys.argv[2]
    allocator = last if program == "fill" else program
    if allocator in ALLOCATORS:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = ALLOCATORS[allocator]
    if program == "fill":
        return fill(last)
    if program in ("nccl-0", "nccl-1"):
        sys.exit(one_rank(int(program[-1]), int(last)))
    other = {"cache": cache, "spawn": spawn, "nccl": nccl, "jax": train_jax, "cupy": train_cupy}
    if program not in other and program not in KEPT_WORDS:
        sys.exit(f"training.py: no program '{program}'; there are {', '.join([*KEPT_WORDS, *other, 'fill'])}")
    return other[program](int(last)) if program in other else train(program, int(last))


main()
