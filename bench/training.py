#!/usr/bin/env python3
"""A small PyTorch training that says each 50 steps how far it is, and at its end a digest of its losses; for bench/shares.

    training.py plain|graph|compile STEPS    eager, as a CUDA graph, or by torch.compile

Beside the model it has 6 GiB on the GPU, and says at the end whether they are intact."""
import hashlib
import os
import struct
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # What PyTorch needs to be deterministic.
import torch

KEPT_WORDS = 3 << 29


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    kept = torch.arange(KEPT_WORDS, device="cuda", dtype=torch.int32)
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
    ).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=mode == "graph")
    forward = torch.compile(model) if mode == "compile" else model
    inputs, targets = torch.randn(512, 1024, device="cuda"), torch.randn(512, 1024, device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=False)
        loss = ((forward(inputs) - targets) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss

    if mode == "graph":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()

    digest = hashlib.sha256()
    for number in range(steps):
        if mode == "graph":
            graph.replay()
        else:
            loss = step()
        if number % 50 == 0 or number == steps - 1:
            digest.update(struct.pack("d", loss.item()))
            print(f"step {number}", flush=True)
    is_intact = bool((kept == torch.arange(KEPT_WORDS, device="cuda", dtype=torch.int32)).all())
    print(f"losses {digest.hexdigest()} memory {'intact' if is_intact else 'DAMAGED'}", flush=True)


main()
