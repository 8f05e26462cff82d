"""How and where a recipe is run: nothing here changes the result, but for rounding."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lightning_fabric import Fabric

from tauleap import _check


@dataclass(frozen=True)
class Run:
    """A folder, the devices, and a limit of time."""

    out: str | os.PathLike[str]
    """Where checkpoints, logs and samples go: a new or empty folder, or that of a run to resume."""
    minutes: float | None = None
    """Stop after this time, with a checkpoint."""
    devices: int = 1
    """On each machine."""
    nodes: int = 1
    """Machines."""
    strategy: str = "auto"
    """As Lightning Fabric names it: "ddp", "fsdp", ..."""
    accelerator: str = "auto"
    """As Lightning Fabric names it: "cpu", "cuda", "mps", ..."""
    accumulate: int = 1
    """Pieces into which each device's part of a batch is cut, where it does not fit into memory."""
    compile: bool = False
    """Compile the network with ``torch.compile``."""
    keep: int = 3
    """How many checkpoints are kept."""
    tensorboard: bool = True
    """Write TensorBoard logs too, where it is installed."""

    def __post_init__(self) -> None:
        for name in ("devices", "nodes", "accumulate", "keep"):
            _check.integer(name, getattr(self, name), least=1)
        if any(word in self.strategy for word in ("spawn", "fork", "notebook")) or self.strategy == "dp":
            raise ValueError(
                f"strategy must be one that starts whole processes, such as ddp or fsdp: {self.strategy!r}"
            )
        if self.minutes is not None:
            _check.positive("minutes", self.minutes)

    @property
    def folder(self) -> Path:
        """``out`` as a path."""
        return Path(self.out)

    def launch(self, precision: str) -> Fabric:
        """Starts the processes of this run, or finds those that torchrun has started."""
        devices, nodes, strategy = self.devices, self.nodes, self.strategy
        if "TORCHELASTIC_RUN_ID" in os.environ:
            devices, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
            nodes = world // devices
            strategy = "ddp" if strategy == "auto" else strategy
        try:
            fabric = Fabric(
                accelerator=self.accelerator,
                devices=devices,
                num_nodes=nodes,
                strategy=strategy,
                precision=precision,  # pyright: ignore[reportArgumentType] (Fabric refuses what it does not know)
            )
        except RuntimeError as error:  # an accelerator that this machine has not
            raise ValueError(str(error)) from error
        fabric.launch()
        return fabric
