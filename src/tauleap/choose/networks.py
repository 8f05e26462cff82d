"""Networks by name, with sizes for the data and the training time."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from tauleap import _check, _device, _memory
from tauleap.choose.marginals import column_marginals
from tauleap.data import Dataset
from tauleap.denoise import Denoiser, NetworkDenoiser, RaggedDenoiser, SequenceDenoiser
from tauleap.network import MusicTransformer, ResidualMLP, SequenceTransformer, TableNetwork, UNet
from tauleap.network.arguments import Arguments, unwrapped
from tauleap.noise import ForwardProcess

NETWORKS = ("table", "residual-mlp", "sequence-transformer", "music-transformer", "unet")
"""Each has a default width and depth; ``width`` and ``depth`` override them."""

_SIDE, _CHANNELS = 8, 4
"""Ordered values with two axes at least this long, and a third at most this long if there is one, are an image."""
_FEW_PIXELS = 1_000_000
"""Number of pixels in all images, below which a U-Net memorises them."""
_FEW_SITES, _FEW_INDICATORS = 64, 2048
"""Sites, and sites times states, up to which a dense network learns more in the same time than a transformer; under
absorbing noise a table network is better than a residual MLP (docs/log.md, 2026-11-18)."""
_MOST_INDICATORS = 2**20
"""Sites times states of a residual MLP: its first and last layers have a weight for each and each unit of width."""
_WRITE_TRANSFORMER = "write network='sequence-transformer' (--network sequence-transformer)"
_TABLE_BATCH, _TABLE_PACE = 256, 100
"""Rows per step of a table network, and its steps per second: 100 for Adult (15 columns) on one thread."""
_DROPOUT = ((100.0, 0.4), (30.0, 0.2))
"""Dropout of a table network from so many passes over the rows on. Adult, bits per held-out cell, standard errors of
differences about .001: after 47 passes 1.901 without dropout and with .1 or .2; after 150 passes 1.920 without, 1.903
with .2, 1.900 with .4."""
_DECAY_ROWS = 2500
"""The weight decay of a table network is this over the number of rows, within .1 and .6 (docs/log.md, 2026-11-19)."""
_MOST_WIDTH, _MOST_DEPTH = 2**16, 1000
"""Several times the largest published transformers, of width 18,432 and depth 126."""
_BYTES_PER_WEIGHT = 20
"""Bytes per weight in training: weight, gradient, two moments of Adam and the average, in float32."""


@dataclass(frozen=True)
class Plan:
    """Hold a network to build, and suitable settings of training.

    Args:
        build: Returns the denoiser with initial weights.
        batch_size: Rows per step.
        lr: Learning rate.
        warmup: Steps of warm-up of the learning rate.
        reason: One line that explains the choice.
        uses_time: Whether the network takes t. Default: true.
        takes_observed: Whether it must be trained with observed sites, to use them. Default: true.
        weight_decay: Weight decay of AdamW. Default: none.
        decay: Whether the learning rate decays to the last step. Default: false.
        betas: The betas of Adam. Default: (0.9, 0.999).
    """

    build: Callable[[], Denoiser]
    batch_size: int
    lr: float
    warmup: int
    reason: str
    uses_time: bool = True
    takes_observed: bool = True
    weight_decay: float | None = None
    decay: bool = False
    betas: tuple[float, float] = (0.9, 0.999)


@dataclass(frozen=True)
class _Task:
    """Hold the data, its noise, the training time, and the sizes that the user gave."""

    data: Dataset
    process: ForwardProcess
    minutes: float
    width: int | None
    depth: int | None
    steps: int | None = None

    @property
    def sites(self) -> int:
        return math.prod(self.data.shape)

    def sizes(self, width: int, depth: int, *, plural: bool = True) -> tuple[int, int, str]:
        """Return width and depth, given or by default, and a text about them."""
        shown = f"width {width}" if self.width is None else f"width {self.width} (as given)"
        if self.depth is not None:
            shown += f" and depth {self.depth} (as given)"
        elif plural:
            shown += f" and depth {depth}"
        return self.width or width, self.depth or depth, shown


def choose_network(
    network: nn.Module | Denoiser | str | None,
    data: Dataset,
    process: ForwardProcess,
    *,
    ordinal: bool,
    is_text: bool = False,
    minutes: float,
    width: int | None = None,
    depth: int | None = None,
    steps: int | None = None,
) -> Plan:
    """Return the network for the data: the given or named one, else a suitable one.

    Args:
        network: A module, of which a copy is trained; one of ``NETWORKS``; or None to choose automatically.
        data: The rows.
        process: The noise.
        ordinal: Whether the states are ordered quantities.
        is_text: Whether the rows are parts of a text. Default: false.
        minutes: The time for training, which decides the size.
        width: The width; None for the default.
        depth: The depth, for a U-Net the blocks per level; None for the default.
        steps: The number of training steps, which with the rows decides the dropout; None for as many as the minutes
            allow.

    Raises:
        ValueError: The name is unknown, or the network does not fit the data or the sizes.
        TypeError: The network is neither a name nor a module.
    """
    for name, value, most in (("width", width, _MOST_WIDTH), ("depth", depth, _MOST_DEPTH)):
        if value is not None and _check.integer(name, value, least=1) > most:
            raise ValueError(f"{name} must be <= {most:,}, got {value:,}")
    task = _Task(data, process, minutes, width, depth, steps)
    if network is None:
        return _named(automatic_network(data, process, ordinal=ordinal, is_text=is_text), task, given=False)
    if isinstance(network, str):
        return _named(network, task, given=True)
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"network must be a torch.nn.Module, a Denoiser or one of {', '.join(NETWORKS)}, got "
            f"{type(network).__name__}"
        )
    if width is not None or depth is not None:
        raise ValueError("width and depth need a network by name, got a module: leave them out")

    def build() -> Denoiser:
        own = deepcopy(unwrapped(network)).to(_device.CPU)  # Training moves it to its device.
        return own if isinstance(own, Denoiser) else _denoiser(own, data, process)

    plan = _named(automatic_network(data, process, ordinal=ordinal, is_text=is_text), task, given=False)
    own = network if isinstance(network, Denoiser) else NetworkDenoiser(network)
    # A network that has no parameter for the observed sites sees them by their states alone.
    takes_observed = isinstance(network, Denoiser) or Arguments(network).takes_observed
    return Plan(
        build,
        plan.batch_size,
        plan.lr,
        plan.warmup,
        f"network: {type(unwrapped(network)).__name__}, as given",
        uses_time=own.uses_time,
        takes_observed=takes_observed,
    )


def automatic_network(data: Dataset, process: ForwardProcess | None, *, ordinal: bool, is_text: bool = False) -> str:
    """Return the name of the network that suits the data.

    Args:
        data: The rows.
        process: The forward process; None for the default, absorbing noise.
        ordinal: Whether the states are ordered quantities.
        is_text: Whether the rows are parts of a text, where a symbol means the same at every site. Default: false.
    """
    if data.sequences is not None or is_text:
        return "sequence-transformer"
    sites = math.prod(data.shape)
    num_states = data.num_states + 1 if process is None else process.num_states
    absorbing = process is None or process.mask == process.num_states - 1
    is_small = sites <= _FEW_SITES and sites * num_states <= _FEW_INDICATORS
    if absorbing and (is_small or data.sizes is not None):
        return "table"
    if is_small:
        return "residual-mlp"
    return "unet" if ordinal and _axes(data.shape) is not None else "sequence-transformer"


def _denoiser(network: nn.Module, data: Dataset, process: ForwardProcess) -> Denoiser:
    """Return the denoiser of a network with logits; rows that end have one that knows what an end implies."""
    if data.sequences is None or process.mask is None:
        return NetworkDenoiser(network)
    return SequenceDenoiser(network, data.sequences.end, process.mask)


def _named(name: str, task: _Task, *, given: bool) -> Plan:
    makers = {
        "table": _table,
        "residual-mlp": _residual_mlp,
        "sequence-transformer": _sequence_transformer,
        "music-transformer": _music_transformer,
        "unet": _unet,
    }
    if name not in makers:
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}, or a torch.nn.Module, got {name!r}")
    plan = makers[name](task, given)
    if task.width is not None or task.depth is not None:
        _check_memory(name, lambda depth: makers[name](replace(task, depth=depth), given), task)
    return plan


def _check_memory(name: str, plan: Callable[[int | None], Plan], task: _Task) -> None:
    """Raise ValueError before allocating weights that do not fit into the memory of this machine."""

    def weights(depth: int | None) -> int:
        with _device.META:
            return sum(weight.numel() for weight in plan(depth).build().parameters())

    # All blocks have equally many weights, so two depths determine those of any depth.
    depth, first = task.depth, weights(None if task.depth is None else 1)
    number = first if depth is None else first + (depth - 1) * (weights(2) - first)
    needed, available = _BYTES_PER_WEIGHT * number, _memory.total_memory(_device.CPU)
    if needed > available:
        raise ValueError(
            f"{name} of this size has {number:,} weights and needs {needed / 2**30:,.0f} GB in training, but this "
            f"machine has {available / 2**30:,.0f} GB: write a smaller width (--width) or depth (--depth)"
        )


def _table(task: _Task, given: bool) -> Plan:
    process, shape = task.process, task.data.shape
    if process.mask != process.num_states - 1:
        raise ValueError(
            f"network='table' needs absorbing noise with the mask as its last state, got {type(process).__name__}: "
            "write network='residual-mlp' (--network residual-mlp)"
        )
    counts = process.data_states.expand(*shape, -1).sum(-1).flatten().tolist()
    if sum(counts) > _MOST_INDICATORS:
        raise ValueError(
            f"network='table' needs <= {_MOST_INDICATORS:,} states in all columns together, and this data has "
            f"{sum(counts):,}: {_WRITE_TRANSFORMER}"
        )
    width, depth, sizes = task.sizes(128 if task.minutes < 10 else 192, 2 if task.minutes < 10 else 3)
    dropout = _table_dropout(task)

    def build() -> Denoiser:
        network = TableNetwork(counts, shape, width=width, hidden=4 * width, depth=depth, dropout=dropout)
        if not network.output.bias.is_meta:  # where weights are only counted
            # A process may have states that the data lacks. They are as rare as any other without a row.
            least, more = 0.5 / (len(task.data) + task.data.num_states), max(0, max(counts) - task.data.num_states)
            network.begin_with_(nn.functional.pad(column_marginals(task.data), (0, more)).clamp(min=least))
        return RaggedDenoiser(network, process.num_states)

    why = "as given" if given else f"because {task.sites} columns have {sum(counts):,} states in all"
    shown = f" with dropout {dropout:g}" if dropout else ""
    settings: dict[str, Any] = {"uses_time": False, "takes_observed": False, "decay": True}
    settings["weight_decay"] = min(max(_DECAY_ROWS / len(task.data), 0.1), 0.6)
    return Plan(build, _TABLE_BATCH, 2e-3, 100, f"network: a table network of {sizes}{shown}, {why}", **settings)


def _table_dropout(task: _Task) -> float:
    """Return a dropout that grows with the number of passes over the rows, since many passes overfit."""
    steps = 60 * task.minutes * _TABLE_PACE if task.steps is None else task.steps
    passes = steps * _TABLE_BATCH / max(len(task.data), 1)
    return next((dropout for least, dropout in _DROPOUT if passes >= least), 0.0)


def _residual_mlp(task: _Task, given: bool) -> Plan:
    num_states, shape = task.process.num_states, task.data.shape
    indicators = task.sites * num_states
    if indicators > _MOST_INDICATORS:
        raise ValueError(
            f"residual-mlp needs sites x states <= {_MOST_INDICATORS:,}, got {indicators:,}: {_WRITE_TRANSFORMER}"
        )
    width, batch_size = (128, 256) if indicators <= _FEW_INDICATORS // 4 else (256, 64)
    width, depth, sizes = task.sizes(width * (1 if task.minutes < 10 else 2), 3, plural=given)

    def build() -> Denoiser:
        numbers: dict[str, Any] = {"width": width, "hidden": 2 * width, "depth": depth}
        return NetworkDenoiser(ResidualMLP(num_states, shape, **numbers, one_hot=True, mark_observed=True))

    why = "as given" if given else f"because {task.sites} sites are few enough for one dense network"
    return Plan(build, batch_size, 1e-3, 100, f"network: a residual MLP of {sizes}, {why}")


def _transformer_sizes(minutes: float) -> tuple[int, int]:
    return (64, 4) if minutes < 5 else (128, 4) if minutes < 30 else (192, 6)


def _heads(width: int) -> int:
    """Return how many heads of about 32 numbers share a width; each needs an even number of them."""
    heads = next((n for n in range(max(1, width // 32), 0, -1) if width % (2 * n) == 0), None)
    if heads is None:
        raise ValueError(f"width of a transformer must be even, got {width}")
    return heads


def _transformer_dropout(task: _Task, width: int, depth: int) -> float:
    """Return a dropout for data of fewer cells than weights, which a transformer would memorise."""
    return 0.1 if task.data.x.numel() < 12 * depth * width**2 else 0.0


def _sequence_transformer(task: _Task, given: bool) -> Plan:
    num_states, shape = task.process.num_states, task.data.shape
    is_masked = task.process.mask is not None
    default = (128, 4) if is_masked and task.minutes < 5 else _transformer_sizes(task.minutes)
    width, depth, sizes = task.sizes(*default)
    heads, dropout = _heads(width), _transformer_dropout(task, width, depth)
    labels = None if task.data.sequences is None else task.data.sequences.labels

    def build() -> Denoiser:
        numbers: dict[str, Any] = {"width": width, "depth": depth, "heads": heads}
        # Plain blocks begin to learn at once; under absorbing noise neither t nor observed sites add information to x.
        options: dict[str, Any] = {"plain": True, "time": False, "mark_observed": False} if is_masked else {}
        options |= {} if labels is None else {"num_classes": labels}
        network = SequenceTransformer(num_states, shape, **numbers, dropout=dropout, **options)
        return _denoiser(network, task.data, task.process)

    why = "as given" if given else f"because {task.sites} sites are a sequence; for {_time(task.minutes)}"
    reason = f"network: a transformer of {sizes}, {why}"
    if not is_masked:
        return Plan(build, max(8, min(64, 2048 // task.sites)), 1e-3, 100, reason)
    batch_size = max(8, min(64, 1024 // task.sites))
    settings: dict[str, Any] = {"uses_time": False, "takes_observed": False, "decay": True, "betas": (0.9, 0.98)}
    return Plan(build, batch_size, 2e-3, 100, reason, **settings)


def _music_transformer(task: _Task, given: bool) -> Plan:
    num_states = task.process.num_states
    if len(task.data.shape) != 1:
        raise ValueError(
            f"music-transformer needs rows with one axis, got shape {task.data.shape}: {_WRITE_TRANSFORMER}"
        )
    width, depth, sizes = task.sizes(*_transformer_sizes(task.minutes))
    heads, dropout = _heads(width), _transformer_dropout(task, width, depth)

    def build() -> Denoiser:
        numbers: dict[str, Any] = {"width": width, "heads": heads, "hidden": 4 * width, "depth": depth}
        return NetworkDenoiser(MusicTransformer(num_states, **numbers, dropout=dropout, mark_observed=True))

    reason = f"network: the paper's music transformer, of {sizes}, as given"
    return Plan(build, max(8, min(64, 2048 // task.sites)), 1e-3, 100, reason)


def _unet(task: _Task, given: bool) -> Plan:
    axes, process = _axes(task.data.shape), task.process
    if axes is None:
        raise ValueError(
            f"unet needs images, rows (height, width) with sides >= {_SIDE} and up to {_CHANNELS} channels as first or "
            f"last axis, got rows of shape {task.data.shape}: {_WRITE_TRANSFORMER}"
        )
    (channels, height, width, channels_last), minutes = axes, task.minutes
    wide, depth, _ = task.sizes(24 if minutes < 10 else 48 if minutes < 60 else 96, 1)
    if wide % 4:
        raise ValueError(f"width of a U-Net must be a multiple of 4, got {wide}")
    # As many halvings as leave about seven rows at the coarsest level.
    halvings = max(0, min(4, round(math.log2(min(height, width) / 7))))
    is_masked = process.mask == process.num_states - 1

    def build() -> Denoiser:
        return NetworkDenoiser(
            UNet(
                process.num_states,
                channels,
                width=wide,
                multipliers=(1, *(2,) * halvings),
                depth=depth,
                attention_levels=(),
                dropout=0.1 if task.data.x.numel() < _FEW_PIXELS else 0.0,
                outputs=process.num_states,
                output_kernel=1,
                mark_observed=True,
                masked=is_masked,
                pad=True,
                channels_last=channels_last,
            ).init_smooth_()
        )

    colours = f"{channels} x " if channels > 1 else ""
    shown = f"width {wide}{' (as given)' if task.width is not None else ''} with {halvings + 1} levels"
    shown += "" if task.depth is None else f" of depth {depth} (as given)"
    why = f"because {colours}{height} x {width} ordered values are an image; for {_time(minutes)}"
    batch_size = max(4, min(16, 24576 // task.sites))
    return Plan(build, batch_size, 2e-3, 50, f"network: a U-Net of {shown}, {'as given' if given else why}")


def _time(minutes: float) -> str:
    """Return a time budget in words; sizes depend only on its order of magnitude."""
    return "a few minutes" if minutes < 5 else "some minutes" if minutes < 30 else "an hour or so"


def _axes(shape: tuple[int, ...]) -> tuple[int, int, int, bool] | None:
    """Return channels, height and width of an image, and whether the channels come last; None for other data."""
    if len(shape) == 2 and min(shape) >= _SIDE:
        return 1, *shape, False
    if len(shape) == 3 and shape[0] <= _CHANNELS and min(shape[1:]) >= _SIDE:
        return *shape, False
    if len(shape) == 3 and shape[2] <= _CHANNELS and min(shape[:2]) >= _SIDE:
        return shape[2], shape[0], shape[1], True
    return None
