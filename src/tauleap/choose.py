"""Which noise, network and sizes suit data: a choice, and its reasons in two lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tauleap.data import Dataset
from tauleap.denoise import Denoiser, NetworkDenoiser
from tauleap.network import ResidualMLP, SequenceTransformer, UNet
from tauleap.noise import Absorbing, ForwardProcess, LogLinear
from tauleap.training import Settings

_SIDE, _CHANNELS = 8, 4
"""Ordered values with two axes at least this long, and a third at most this long if there is one, are a picture."""
_FEW_PIXELS = 1_000_000
"""In all pictures together, below which a U-Net learns them by heart."""
_FEW_SITES, _FEW_INDICATORS = 64, 2048
"""Sites, and sites times states, up to which a dense network learns more in the same time than a transformer."""


@dataclass(frozen=True)
class Choice:
    """What will be trained: ``denoiser`` builds it with fresh weights, ``reasons`` are two lines for people."""

    process: ForwardProcess
    denoiser: Callable[[], Denoiser]
    settings: Settings
    reasons: tuple[str, str]


def choose(
    data: Dataset, *, ordinal: bool = False, minutes: float = 3.0, process: ForwardProcess | None = None
) -> Choice:
    """The defaults of :func:`tauleap.fit` for the rows ``data`` and a budget.

    All get absorbing noise, in which every site has its own number of states, unless ``process`` takes its place. Rows
    with few cells get a dense network over indicators, pictures of ordered shades a U-Net, others a transformer.
    """
    axes = _axes(data.shape)
    if process is None and ordinal and axes is not None and not _few(data, data.num_states + 1):
        return _picture(data, axes, minutes)
    sites = math.prod(data.shape)
    sizes = "" if data.sizes is None else f", {int(data.sizes.min())} to {int(data.sizes.max())} of them a site,"
    why = f"absorbing, because {sites} sites of {data.num_states} states{sizes} are taken as categories"
    if process is None:
        process = Absorbing(data.num_states + 1, LogLinear(), sizes=data.sizes)
    else:
        _check_process(process, data)
        why = f"{type(process).__name__}, as given"
    denoiser, batch_size, lr, words = _for_categories(data, process.num_states, minutes)
    return Choice(
        process,
        denoiser,
        Settings(batch_size=min(batch_size, len(data)), lr=lr, warmup=100, ema=0.999),
        (
            f"noise: {why}",
            f"network: {words}",
        ),
    )


def _for_categories(data: Dataset, num_states: int, minutes: float) -> tuple[Callable[[], Denoiser], int, float, str]:
    sites = math.prod(data.shape)
    if _few(data, num_states):
        small = sites * num_states <= _FEW_INDICATORS // 4
        width, batch_size = (128, 256) if small else (256, 64)
        width *= 1 if minutes < 10 else 2

        def dense() -> Denoiser:
            sizes = {"width": width, "hidden": 2 * width, "depth": 3}
            return NetworkDenoiser(ResidualMLP(num_states, data.shape, **sizes, one_hot=True, mark_observed=True))

        words = f"a residual MLP of width {width}, because {sites} sites are few enough to see at once"
        return dense, batch_size, 1e-3, words
    width, depth = (64, 4) if minutes < 5 else (128, 4) if minutes < 30 else (192, 6)
    # Where there are fewer cells than weights it would learn the rows by heart.
    dropout = 0.1 if data.x.numel() < 12 * depth * width**2 else 0.0

    def transformer() -> Denoiser:
        sizes = {"width": width, "depth": depth, "heads": width // 32}
        return NetworkDenoiser(SequenceTransformer(num_states, data.shape, **sizes, dropout=dropout))

    batch_size = max(8, min(64, 2048 // sites))
    words = (
        f"a transformer of width {width} and depth {depth}, because {sites} sites are a sequence; for {_time(minutes)}"
    )
    return transformer, batch_size, 1e-3, words


def _time(minutes: float) -> str:
    """A budget in words: sizes follow from its order, not from the number."""
    return "a few minutes" if minutes < 5 else "some minutes" if minutes < 30 else "an hour or so"


def _few(data: Dataset, num_states: int) -> bool:
    sites = math.prod(data.shape)
    return sites <= _FEW_SITES and sites * num_states <= _FEW_INDICATORS


def _axes(shape: tuple[int, ...]) -> tuple[int, int, int, bool] | None:
    """Channels, height and width of a picture, and whether the channels come last; None for what is none."""
    if len(shape) == 2 and min(shape) >= _SIDE:
        return 1, *shape, False
    if len(shape) == 3 and shape[0] <= _CHANNELS and min(shape[1:]) >= _SIDE:
        return *shape, False
    if len(shape) == 3 and shape[2] <= _CHANNELS and min(shape[:2]) >= _SIDE:
        return shape[2], shape[0], shape[1], True
    return None


def _picture(data: Dataset, axes: tuple[int, int, int, bool], minutes: float) -> Choice:
    channels, height, width, channels_last = axes
    process = Absorbing(data.num_states + 1, LogLinear(), sizes=data.sizes)
    wide = 24 if minutes < 10 else 48 if minutes < 60 else 96
    # So many halvings that the middle, where all sees all, has about seven rows.
    halvings = max(0, min(4, round(math.log2(min(height, width) / 7))))

    def unet() -> Denoiser:
        return NetworkDenoiser(
            UNet(
                process.num_states,
                channels,
                width=wide,
                multipliers=(1, *(2,) * halvings),
                depth=1,
                attention_levels=(),
                dropout=0.1 if data.x.numel() < _FEW_PIXELS else 0.0,
                outputs=process.num_states,
                output_kernel=1,
                mark_observed=True,
                masked=True,
                pad=True,
                channels_last=channels_last,
            ).begin_smooth()
        )

    batch_size = max(4, min(16, 24576 // math.prod(data.shape)))
    colours = f"{channels} x " if channels > 1 else ""
    return Choice(
        process,
        unet,
        Settings(batch_size=min(batch_size, len(data)), lr=2e-3, warmup=50, ema=0.999),
        (
            f"noise: absorbing, because in pictures of {data.num_states} shades it learnt more in the same time than "
            "Gaussian noise",
            f"network: a U-Net of width {wide} with {halvings + 1} levels, because {colours}{height} x {width} ordered "
            f"values are a picture; for {_time(minutes)}",
        ),
    )


def _check_process(process: ForwardProcess, data: Dataset) -> None:
    """Refuses noise that has not the states of the data, or would lead a site into states that it does not have."""
    if not isinstance(process, ForwardProcess):
        raise TypeError(f"process must be a ForwardProcess such as RankOne, got {type(process).__name__}")
    if int(process.data_states.sum(-1).max()) < data.num_states:
        raise ValueError(
            f"the process has {process.num_states} states, too few for data of {data.num_states} states: write "
            f"Absorbing({data.num_states + 1}, LogLinear()), which counts its mask, or RankOne(prior, LogLinear())"
        )
    if data.sizes is not None:
        allowed = process.data_states.cpu().expand(*data.shape, -1)
        beyond = torch.arange(process.num_states) >= data.sizes[..., None]
        if bool((allowed & beyond).any()):
            raise ValueError(
                "the sites have different numbers of states, and the process leads into states that some do not have: "
                "write Absorbing(..., sizes=data.sizes), or RankOne with a prior (*shape, S) that is 0 there"
            )


def column_marginals(data: Dataset) -> Tensor:
    """How often each state comes at each site among the known values, with 1/2 added to each count: (*shape, S).

    States that a site does not have get 0.
    """
    sites, states = math.prod(data.shape), data.num_states
    flat = data.x.reshape(len(data), -1)
    counts = torch.zeros(sites, states, dtype=torch.float64)
    missing = None if data.missing is None else data.missing.reshape(flat.shape)
    for begin in range(0, len(data), 65536):
        rows = flat[begin : begin + 65536].long()
        known = torch.ones_like(rows) if missing is None else (~missing[begin : begin + 65536]).long()
        counts.scatter_add_(1, rows.T.contiguous(), known.T.double())
    possible = torch.arange(states) < (states if data.sizes is None else data.sizes.reshape(-1, 1))
    counts = (counts + 0.5) * possible
    return (counts / counts.sum(1, keepdim=True)).reshape(*data.shape, states)
