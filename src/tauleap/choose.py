"""Which noise, network and sizes suit data: a choice, and its reasons in two lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tauleap.data import Dataset
from tauleap.denoise import Denoiser, NetworkDenoiser, TruncatedLogistic
from tauleap.network import ResidualMLP, SequenceTransformer, UNet
from tauleap.noise import Absorbing, Exponential, ForwardProcess, Gaussian, LogLinear
from tauleap.training import Settings

_LONG = 1024
"""Sites, beyond which attention over all of them is too slow to be the default."""
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

    Categories get absorbing noise, in which every site has its own number of states. Large pictures of ordered shades
    get Gaussian noise and a U-Net. Rows with few cells get a dense network over indicators, others a transformer.
    ``process`` takes the place of the chosen noise.
    """
    if (
        process is None
        and ordinal
        and len(data.shape) == 3
        and math.prod(data.shape) > _LONG
        and _halves(data.shape) > 0
    ):
        return _picture(data, minutes)
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
    indicators = sites * num_states
    if sites <= _FEW_SITES and indicators <= _FEW_INDICATORS:
        small = indicators <= _FEW_INDICATORS // 4
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
    words = f"a transformer of width {width} and depth {depth}, for {sites} sites and {minutes:g} minutes"
    return transformer, batch_size, 1e-3, words


def _picture(data: Dataset, minutes: float) -> Choice:
    states, width = data.num_states, 32 if minutes < 10 else 64
    # So wide that a picture is forgotten, so local that shades near by are tried first: the paper's proportions.
    process = Gaussian(states, Exponential(3.0, 100.0), sigma_0=2.0 * states, sigma_r=max(1.0, states / 42))
    levels = (1, *(2,) * min(2, _halves(data.shape)))

    def unet() -> Denoiser:
        outputs = states if states <= 32 else 2
        network = UNet(
            states,
            data.shape[0],
            width=width,
            multipliers=levels,
            depth=1,
            attention_levels=(),
            outputs=outputs,
            mark_observed=True,
        )
        return NetworkDenoiser(network) if outputs == states else TruncatedLogistic(network, states)

    return Choice(
        process,
        unet,
        Settings(batch_size=min(16, len(data)), lr=5e-4, warmup=100, ema=0.999),
        (
            f"noise: Gaussian, because {states} ordered states in pictures of {data.shape} are shades",
            f"network: a U-Net of width {width} with {len(levels)} levels, for {minutes:g} minutes",
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


def _halves(shape: tuple[int, ...]) -> int:
    """How often the last two sides can be halved."""
    height, width = shape[-2:]
    count = 0
    while height % 2 == width % 2 == 0 and min(height, width) > 4:
        height, width, count = height // 2, width // 2, count + 1
    return count


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
