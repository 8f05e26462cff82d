"""Lightning Fabric for the devices of a run: which process works where, and how processes share the weights."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.accelerators import ACCELERATOR_REGISTRY
from lightning_fabric.accelerators.accelerator import Accelerator
from lightning_fabric.plugins.environments.lsf import LSFEnvironment
from lightning_fabric.plugins.environments.mpi import MPIEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.precision import MixedPrecision, Precision
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from lightning_fabric.strategies.single_device import SingleDeviceStrategy
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from tauleap import _device

if TYPE_CHECKING:
    from tauleap.training.run import Run

STRATEGIES = ("auto", "ddp", "fsdp")
_PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "64-true")
_CLUSTERS = (SLURMEnvironment, LSFEnvironment, MPIEnvironment)
"""Schedulers that start a process per device; Lightning Fabric looks for them after torchrun, in this order."""


def check_devices(run: Run, precision: str = "32-true") -> torch.device:
    """Return the device of a run, after checking that this machine supports it.

    Args:
        run: the devices, machines and strategy.
        precision: the precision of the network, see :class:`tauleap.training.Settings`. Default: "32-true".

    Raises:
        ValueError: There is no such device, there are fewer of them, or they do not support the strategy or precision.
    """
    device = _device.resolve(run.device)
    if precision not in _PRECISIONS:
        raise ValueError(f"precision must be {_listed(_PRECISIONS)}, got {precision!r}")
    if precision == "64-true" and not _device.has_float64(device):
        raise ValueError(f"precision 64-true needs float64, which {device} does not have: write 32-true")
    if precision == "16-mixed" and _device.is_host(device):
        raise ValueError("precision 16-mixed needs an accelerator: write bf16-mixed for the CPU")
    if run.strategy == "fsdp" and precision in ("16-mixed", "64-true"):
        raise ValueError(f"strategy fsdp supports precision 32-true and bf16-mixed, got {precision}")
    external = "TORCHELASTIC_RUN_ID" in os.environ
    if (external or run.strategy != "auto" or run.devices * run.nodes > 1) and not _device.can_communicate(device):
        raise ValueError(
            f"devices > 1 and strategy need the device type cpu or cuda, got {device.type}: leave them out"
        )
    if distributed.is_available() and distributed.is_initialized():
        _check_world(run, distributed.get_world_size())
    if external or run.devices * run.nodes == 1:
        return device
    if device.index is not None:
        raise ValueError(f"device {device} is a single device, but devices={run.devices}: write device={device.type}")
    if "LOCAL_RANK" in os.environ:  # one of the processes of a run that was checked when it started them
        return device
    if any(cluster.detect() for cluster in _CLUSTERS):
        return device
    # Lightning's own way: the same command on every machine, each with the address of the first and its number.
    if run.nodes > 1 and not {"MASTER_ADDR", "NODE_RANK"} <= os.environ.keys():
        raise ValueError(
            f"nodes={run.nodes} needs a launcher on every machine: start the program with "
            f"torchrun --nnodes {run.nodes} on each of them, or with a scheduler such as Slurm"
        )
    if _device.is_host(device):
        if run.devices > (cores := _device.cpu_cores()):
            raise ValueError(f"devices must be <= {cores}, the number of CPU cores of this machine, got {run.devices}")
    elif run.devices > (count := _device.count_devices(device.type)):
        raise ValueError(
            f"devices must be <= {count}, the number of {device.type} devices of this machine, got {run.devices}"
        )
    return device


def launch(run: Run, precision: str) -> Fabric:
    """Start the processes of a run, or join those that torchrun has started.

    Args:
        run: the devices, machines and strategy.
        precision: the precision of the network.

    Returns:
        Fabric, which knows the rank of this process.
    """
    device = check_devices(run, precision)
    (devices, nodes), strategy = run.places(), run.strategy
    if "TORCHELASTIC_RUN_ID" in os.environ:
        strategy = "ddp" if strategy == "auto" else strategy
    known = device.type in ACCELERATOR_REGISTRY.available_accelerators()
    options: dict[str, Any] = {"accelerator": device.type, "devices": devices, "num_nodes": nodes}
    if strategy == "fsdp":
        options["strategy"] = ModelParallelStrategy(_shard, devices * nodes, 1, save_distributed_checkpoint=False)
    elif strategy == "ddp" or devices * nodes > 1:
        options["strategy"] = "ddp"
    elif not known:
        options |= {"accelerator": _OtherAccelerator(), "strategy": SingleDeviceStrategy(device)}
    if device.index is not None and known and devices == 1:
        options["devices"] = [device.index]
    if not known and precision == "bf16-mixed":
        options["plugins"] = MixedPrecision(precision, device.type)
    elif precision == "64-true":
        options["plugins"] = _Float64()
    else:
        options["precision"] = precision
    if devices * nodes > 1:
        _check_program(devices)
    fabric = Fabric(**options)
    with _default_signals() if devices * nodes > 1 else nullcontext():
        fabric.launch()
    _check_world(run, distributed.get_world_size() if distributed.is_initialized() else 1)
    return fabric


def _check_world(run: Run, processes: int) -> None:
    """Raise ValueError if the number of processes is not that of the run: each would train on a part of the batch."""
    if processes != run.ranks:
        raise ValueError(
            f"this program runs in {processes} {'process' if processes == 1 else 'processes'}, but devices x nodes is "
            f"{run.ranks}: write devices and nodes with the product {processes}, or train this run in another program"
        )


def _check_program(devices: int) -> None:
    """Raise ValueError if Fabric cannot start the program again, because it is neither a module nor a file."""
    started = {"LOCAL_RANK", "TORCHELASTIC_RUN_ID"} & os.environ.keys() or any(each.detect() for each in _CLUSTERS)
    main = sys.modules["__main__"]
    is_file = getattr(main, "__file__", None) is not None and Path(sys.argv[0]).is_file()
    if not started and main.__spec__ is None and not is_file:
        raise ValueError(
            f"devices={devices} starts this program once per device, which needs a file, but it was typed or piped in: "
            "save it as a file and run python FILE"
        )


@contextmanager
def _default_signals() -> Iterator[None]:
    """Restore the default action of signals within the block: Python handlers do not run while it waits for ranks."""
    swapped: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere Python does not allow handlers
        found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        swapped = {number: handler for number, handler in found.items() if callable(handler)}
    for number in swapped:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in swapped.items():
            signal.signal(number, handler)


def _shard(network: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Shard every weight of the network over the ranks.

    The full weights are freed after each forward pass: cached ones would not follow the averaged weights, which replace
    them during validation.
    """
    # Before FSDP's own hook, which changes made in place to a view of another tensor would drop.
    network.register_forward_hook(lambda _, __, out: out.clone() if out._is_view() else out)
    fully_shard(network, mesh=mesh["data_parallel"], reshard_after_forward=True)
    return network


class _Float64(Precision):
    """Keep weights and outputs in float64, which Fabric's own class rounds to float32 on several devices."""

    precision = "64-true"

    def convert_module(self, module: nn.Module) -> nn.Module:
        return module.double()


class _OtherAccelerator(Accelerator):
    """Support one device of a type for which Fabric has no class, such as xpu."""

    def setup_device(self, device: torch.device) -> None:
        torch.get_device_module(device).set_device(device)

    def teardown(self) -> None:
        pass

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        return devices

    @staticmethod
    def get_parallel_devices(devices: Any) -> Any:
        return [_device.resolve("auto")]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True  # a device that was resolved is available

    @staticmethod
    def name() -> str:
        return "other"


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
