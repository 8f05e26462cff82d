"""The folder, the devices and the time limit of a run; they change the result only by rounding."""

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
    """Hold the folder, the devices and the time limit of a training run.

    >>> Run("runs/toy", minutes=5.0).ranks
    1

    Raises:
        ValueError: A number is out of its range, or the strategy is unknown.
    """

    out: str | os.PathLike[str]
    """Folder for checkpoints, logs and samples: new, empty, or of a run to resume."""
    minutes: float | None = None
    """Minutes, > 0, after which to stop with a checkpoint. Default: None, no limit."""
    devices: int = 1
    """Devices per machine, or processes on a CPU, >= 1. Default: 1."""
    nodes: int = 1
    """Machines, >= 1. Default: 1."""
    strategy: str = "auto"
    """Weights on several devices: "ddp" (a copy on each) or "fsdp" (sharded). Default: "auto", which is ddp."""
    device: str | torch.device = "auto"
    """Type of device, such as "cuda", or one device, such as "cuda:1". Default: "auto", the accelerator if any."""
    accumulate: int = 1
    """Parts into which each device's share of a batch is split to save memory, >= 1. Default: 1."""
    compile: bool = False
    """Whether to compile the network with ``torch.compile``. Default: false."""
    keep: int = 3
    """Number of newest checkpoints to keep, >= 1. Default: 3."""
    tensorboard: bool = True
    """Whether to write TensorBoard logs too, if it is installed. Default: true."""

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
        """Number of processes: those that torchrun has started, or one per device."""
        devices, nodes = self.places()
        return devices * nodes

    def places(self) -> tuple[int, int]:
        """Return the devices per machine and the machines, from torchrun if it started this process."""
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return self.devices, self.nodes
        devices, world = int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
        return devices, world // devices

    def check(self, precision: str = "32-true") -> torch.device:
        """Return the device, after checking that this machine supports the run; nothing is started.

        Args:
            precision: Precision of the network, see :class:`Settings`. Default: "32-true".

        Raises:
            ValueError: There is no such device, there are fewer of them, or they do not support the strategy or
                precision.
        """
        return check_devices(self, precision)

    def launch(self, precision: str) -> Fabric:
        """Start the processes of this run, or join those that torchrun has started.

        Args:
            precision: Precision of the network, see :class:`Settings`.

        Returns:
            Fabric, which knows the rank of this process.
        """
        return launch(self, precision)
