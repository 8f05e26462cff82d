"""The options of ``tauleap train``."""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Train:
    """Train a model, or go on with a run that was begun in the same folder. What is not given is as the recipe says."""

    recipe: Literal["toy", "digits"]
    """What to train."""
    out: Path | None = None
    """Folder for checkpoints, logs and samples; runs/RECIPE by default. A run that was begun there goes on."""
    steps: int | None = None
    """Where to stop. A finished run goes on when this grows."""
    minutes: float | None = None
    """Stop after this time, with a checkpoint."""
    batch_size: int | None = None
    """Rows a step, over all devices together."""
    lr: float | None = None
    """Learning rate."""
    seed: int | None = None
    """Of the weights, the order of the data and all noise."""
    checkpoint_every: int | None = None
    """Steps between checkpoints."""
    precision: str | None = None
    """Of the network: 32-true, bf16-mixed, 16-mixed or 64-true."""
    devices: int = 1
    """Devices of each machine, or processes on a CPU."""
    nodes: int = 1
    """Machines."""
    strategy: str = "auto"
    """How many devices work together: ddp, fsdp, or what else Lightning Fabric knows."""
    accelerator: str = "auto"
    """cpu, cuda, mps, or auto for the best there is."""
    accumulate: int = 1
    """Pieces into which a device's part of a batch is cut, where memory is short."""
    compile: bool = False
    """Compile the network."""
    keep: int = 3
    """How many checkpoints are kept."""

    def run(self) -> None:
        """Trains; leaves with 130 or 143 after Ctrl-C or SIGTERM, and with 1 when the loss is not a number."""
        from tauleap import recipes
        from tauleap.training import NonFiniteError, Run, train

        recipe = getattr(recipes, self.recipe)()
        names = ("steps", "batch_size", "lr", "seed", "checkpoint_every", "precision")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        recipe = dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, **given))
        run = Run(
            out=self.out or Path("runs") / self.recipe,
            minutes=self.minutes,
            devices=self.devices,
            nodes=self.nodes,
            strategy=self.strategy,
            accelerator=self.accelerator,
            accumulate=self.accumulate,
            compile=self.compile,
            keep=self.keep,
        )
        try:
            result = train(recipe, run)
        except NonFiniteError as error:
            print(f"tauleap: error: {error}", file=sys.stderr)
            raise SystemExit(1) from error
        if not result.first:
            return
        print(f"{result.stopped} at step {result.step}: {result.checkpoint}")
        if result.stopped != "finished":
            print(f"to go on: {_same_command()}")
        if result.stopped.startswith("SIG"):
            raise SystemExit(128 + signal.Signals[result.stopped])


def _same_command() -> str:
    """What was typed; under torchrun with what is known here of its flags."""
    typed = ["tauleap", *sys.argv[1:]]
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return shlex.join(typed)
    ranks, here = os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]
    if ranks != here:
        return f"{shlex.join(typed)}, under torchrun with the same flags on every machine"
    return shlex.join(["torchrun", "--nproc-per-node", here, sys.argv[0], *typed[1:]])
