"""How and where a recipe is run: nothing here changes the result, but for rounding."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from lightning_fabric import Fabric

from tauleap import _check
from tauleap.training.fabric import STRATEGIES, check_devices, launch


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
    """How several devices work together: "ddp" (a copy of the weights on each, the default) or "fsdp" (a part)."""
    device: str | torch.device = "auto"
    """The type of device, such as "cpu" or "cuda", or one device, such as "cuda:1"; "auto" for the accelerator if there
    is one."""
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
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be auto, ddp or fsdp, got {self.strategy!r}")
        if self.minutes is not None:
            _check.positive("minutes", self.minutes)

    @property
    def folder(self) -> Path:
        """``out`` as a path."""
        return Path(self.out)

    @property
    def ranks(self) -> int:
        """How many processes train together: those that torchrun has started, or one per device."""
        devices, nodes = self.places()
        return devices * nodes

    def places(self) -> tuple[int, int]:
        """Return devices per machine and machines, as torchrun or the fields have them."""
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return self.devices, self.nodes
        devices, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        return devices, world // devices

    def check(self, precision: str = "32-true") -> torch.device:
        """Return the device, after a check that this machine can do what is asked for; nothing is started.

        Args:
            precision: of the network, as :class:`Settings` has it. Default: "32-true".

        Raises:
            ValueError: There is no such device, there are fewer of them, or they do not support the strategy or
                precision.
        """
        return check_devices(self, precision)

    def launch(self, precision: str) -> Fabric:
        """Start the processes of this run, or join those that torchrun has started.

        Args:
            precision: of the network, as :class:`Settings` has it.

        Returns:
            Fabric, with this process in its place among the ranks.
        """
        return launch(self, precision)
