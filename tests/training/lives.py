"""A process to be killed. It imports everything once, then forks a life for each order that it reads.

An order is a line of JSON, ``{"out": ..., "settings": {...}, "run": {...}, "ranks": 1}``; the answers are the pids
of the life's processes, and when they have ended their exit statuses. What a life prints goes into ``OUT.txt``.
With an order as its argument, it lives that one itself.
"""

import dataclasses
import functools
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from tauleap._memory import _ENTRY_BYTES
from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser
from tauleap.model import Model
from tauleap.network import SequenceTransformer, TimeExperts
from tauleap.noise import Gaussian, LogLinear
from tauleap.objective import CompleteElbo, CrossEntropy, PaperElbo
from tauleap.training import NonFiniteError, RandomMasks, Recipe, Run, Settings, train, watch
from tauleap.training.engine import Engine
from tauleap.training.watch import draw_samples, held_out_bits

OBJECTIVES = {"complete": CompleteElbo(), "paper": PaperElbo(passes=2) + 0.001 * CrossEntropy()}


def recipe(
    *,
    dropout: float = 0.1,
    held_out: bool = False,
    objective: str = "complete",
    masked: bool = False,
    time_experts: bool = False,
    **settings,
) -> Recipe:
    """Small enough for a few hundred steps a second, with everything that could be lost: dropout, epochs, averages."""
    rows = torch.randint(5, (70, 3), generator=torch.Generator().manual_seed(1))
    data = Dataset(rows.to(torch.uint8), num_states=5, missing=(rows == rows[:, :1] + 1) if masked else None)

    def model() -> Model:
        process = Gaussian(5, LogLinear(), sigma_0=2.0, sigma_r=1.0)
        number = 3 if time_experts else 1
        networks = [SequenceTransformer(5, (3,), width=8, depth=1, heads=2, dropout=dropout) for _ in range(number)]
        network = TimeExperts(networks, at=[0.3, 0.6]) if time_experts else networks[0]
        return Model(process, NetworkDenoiser(network), shape=(3,))

    numbers = {"batch_size": 8, "lr": 1e-2, "warmup": 5, "ema": 0.99, "steps": 40, "checkpoint_every": 5}
    return Recipe(
        name="tiny",
        data=lambda: (data, data if held_out else None),
        model=model,
        objective=OBJECTIVES[objective],
        settings=Settings(**(numbers | {"log_every": 10} | settings)),
        masking=RandomMasks() if masked else None,
    )


def measure(made: Recipe, run: Run) -> None:
    """Gradients of a step, bits/dim and samples, by whatever number of ranks there is: into ``OUT.pt``."""
    fabric = run.launch("32-true")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        data, _ = made.data()
        model = made.model()
        for parameter in model.reverse.parameters():  # the output begins at 0, and so would most gradients
            torch.nn.init.normal_(parameter, std=0.3)
        engine = Engine(fabric, made, model, data, accumulate=run.accumulate)
        engine.backward(12)  # a batch that reaches over the end of an epoch
        # Blocks of 64 rows: several, and not the same number for each rank.
        watch._BLOCK_BYTES = 64 * _ENTRY_BYTES * 15
        with engine.averaged():
            bits, samples = held_out_bits(engine, data), draw_samples(engine, 5)
    gradients = [_whole(parameter.grad) for parameter in engine.network.parameters()]
    if fabric.is_global_zero:
        measured = {"gradients": gradients, "bits": [bits.value, bits.stderr, bits.n], "samples": samples}
        torch.save(measured, f"{run.out}.pt")
    fabric.barrier()


def _whole(tensor):
    """A tensor of which each rank may hold a part."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def live(order: dict) -> int:
    if "file_limit" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"], order["file_limit"]))
    if "backend" in order:
        torch.compile = functools.partial(torch.compile, backend=order["backend"])
    run = Run(out=Path(order["out"]), device="cpu", tensorboard=False, **order.get("run", {}))
    made = recipe(**order.get("settings", {}))
    if order.get("measure"):
        measure(made, run)
        return 0
    try:
        result = train(made, run)
    except (NonFiniteError, ValueError, OSError):
        traceback.print_exc()
        return 1
    # One write: two ranks share the log, and an unbuffered print writes text and line end one after the other.
    os.write(1, f"{json.dumps(dataclasses.asdict(result), default=str)}\n".encode())
    return 0 if result.stopped == "finished" else 3


def fork(order: dict, rank: int, ranks: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 2
    try:
        with open(f"{order['out']}.txt", "a") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        if ranks > 1:
            os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0", "WORLD_SIZE": str(ranks)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(order["port"])}
        status = live(order)
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(live(json.loads(sys.argv[1])))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        count = request.get("ranks", 1)
        pids = [fork(request, rank, count) for rank in range(count)]
        print(json.dumps(pids), flush=True)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)
