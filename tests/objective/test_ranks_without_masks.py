"""Processes that train together, of which one has no masked site: gradients are still those of the whole batch."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from tauleap import ReverseProcess
from tauleap.denoise import NetworkDenoiser
from tauleap.network import SequenceTransformer
from tauleap.noise import Absorbing, LogLinear
from tauleap.objective import CompleteElbo

torch.set_num_threads(1)
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(0)
network = SequenceTransformer(6, (5,), width=8, depth=1, heads=2, time=False).double()
for weight in network.parameters():
    torch.nn.init.normal_(weight)
process, x0 = Absorbing(6, LogLinear()), torch.arange(10).reshape(2, 5) % 5

def loss(module, t):
    reverse = ReverseProcess(process, NetworkDenoiser(module))
    return CompleteElbo()(reverse, x0, t=t, generator=torch.Generator().manual_seed(1)).mean()

loss(network, 0.7).backward()
alone = [weight.grad.clone() / 2 for weight in network.parameters() if weight.grad is not None]
wrapped = DistributedDataParallel(network)
for _ in range(2):  # a process that waits for a gradient fails at its second step
    network.zero_grad()
    loss(wrapped, 0.7 if rank == 0 else 1e-15).backward()
together = [weight.grad for weight in network.parameters() if weight.grad is not None]
assert len(together) == len(alone) > 5
for ours, expected in zip(together, alone, strict=True):
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
dist.destroy_process_group()
"""


def test_a_rank_without_a_masked_site(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    where = os.environ | {"OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], env=where, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors
