"""The choice of what is trained: noise, network, objective and numbers, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from tauleap import _check
from tauleap.choose.networks import automatic_network, choose_network
from tauleap.choose.objectives import choose_objective
from tauleap.choose.processes import choose_process
from tauleap.data import Dataset
from tauleap.denoise import Denoiser
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.training import Settings

_PRECISION = "32-true"


@dataclass(frozen=True)
class Choice:
    """What will be trained.

    Args:
        process: the noise.
        denoiser: returns the denoiser with fresh weights.
        objective: the loss.
        settings: the numbers of training.
        reasons: lines for people about noise, network, objective and training, in this order.
    """

    process: ForwardProcess
    denoiser: Callable[[], Denoiser]
    objective: Objective
    settings: Settings
    reasons: tuple[str, ...]


def choose(
    data: Dataset,
    *,
    ordinal: bool = False,
    minutes: float = 3.0,
    process: ForwardProcess | str | None = None,
    network: nn.Module | Denoiser | str | None = None,
    width: int | None = None,
    depth: int | None = None,
    objective: Objective | str | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    precision: str | None = None,
    pieces: int = 1,
) -> Choice:
    """Return what :func:`tauleap.fit` trains on the rows, with the choices of the user instead of the defaults.

    All data gets absorbing noise, in which every site has its own number of states. Rows with few cells get a dense
    network over indicators, pictures of ordered shades a U-Net, others a transformer.

    Args:
        data: the rows.
        ordinal: whether the states are ordered quantities.
        minutes: the time for training, which decides the size of the network.
        process: the noise, or its name.
        network: the network, or its name.
        width: of the network.
        depth: of the network.
        objective: the loss, or its name.
        batch_size: rows per step, over all devices together.
        lr: learning rate.
        precision: of the network, as Lightning Fabric names it.
        pieces: into how many equal parts a batch is divided, devices times pieces on each.

    Raises:
        ValueError: what is given does not suit the data or each other.
        TypeError: it is of another type.
    """
    loss, why_loss = choose_objective(objective)
    is_picture = automatic_network(data, data.num_states + 1, ordinal=ordinal) == "unet"
    noise, why_noise = choose_process(process, data, ordinal=ordinal, is_picture=is_picture)
    plan = choose_network(network, data, noise, ordinal=ordinal, minutes=minutes, width=width, depth=depth)
    unit = pieces * loss.samples_per_time
    if batch_size is None:
        size = min(plan.batch_size, len(data))
        size = max(unit, size // unit * unit)
    else:
        size = _check.integer("batch_size", batch_size, least=1)
        if size % unit:
            raise ValueError(
                f"batch_size must be a multiple of {unit}, devices times pieces on each"
                f"{' times samples that share a time' if loss.samples_per_time > 1 else ''}, got {size}"
            )
    rate = plan.lr if lr is None else _check.positive("lr", lr)
    kind = _PRECISION if precision is None else precision
    settings = Settings(batch_size=size, lr=rate, warmup=plan.warmup, ema=0.999, precision=kind)
    shown = [
        f"batches of {size} rows{_given(batch_size)}",
        f"learning rate {rate:g}{_given(lr)}",
        f"precision {kind}{_given(precision)}",
    ]
    reasons = (why_noise, plan.reason, why_loss, f"training: {', '.join(shown)}")
    return Choice(noise, plan.build, loss, settings, reasons)


def _given(value: object) -> str:
    return "" if value is None else " (as given)"
