"""Every objective gives each row the same loss, whatever the number of pieces that a batch is cut into."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap._draw import PartOfBatch
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Uniform,
)
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    GridTimes,
    LogUniformTimes,
    Objective,
    PaperElbo,
    ReweightedTimes,
    Subsampled,
    Times,
    UniformTimes,
    WeightedTimes,
)
from tauleap.testing.paths import TableDenoiser

ROWS, SITES = 24, 3
TIMES: list[Times] = [
    UniformTimes(0.01),
    UniformTimes(0.01, stratified=False),
    LogUniformTimes(0.02),
    ReweightedTimes(0.01, power=1.5),
    ReweightedTimes(0.01, weights=[1.0, 3.0]),
    WeightedTimes([1.0, 4.0, 2.0]),
]
OBJECTIVES: list[Objective] = [
    *(PaperElbo(passes=1, times=times) for times in TIMES),
    PaperElbo(passes=2),
    CompleteElbo(),
    CompleteElbo(reconstruction=True),
    CrossEntropy(),
    CrossEntropy("mean", times=LogUniformTimes(0.001)),
    CrossEntropy(times=GridTimes(5)),
    DiscreteTimeElbo(4),
    DiscreteTimeElbo(3, terms="all"),
    0.5 * PaperElbo(passes=1) + 0.001 * CrossEntropy(),
    PaperElbo(passes=2) + CompleteElbo(reconstruction=True) + 0.1 * CrossEntropy("mean"),
    DiscreteTimeElbo(4) + 0.001 * CrossEntropy(),
]
SUBSAMPLED: list[Objective] = [
    Subsampled(CompleteElbo(), site_fraction=0.6),
    Subsampled(CompleteElbo(reconstruction=True) + 0.1 * CrossEntropy(), site_fraction=0.4, samples_per_time=2),
    Subsampled(DiscreteTimeElbo(4), samples_per_time=3),
]
PROCESSES: dict[str, Callable[[], ForwardProcess]] = {
    "uniform": lambda: Uniform(4, Constant(0.6)),
    "absorbing": lambda: Absorbing(4, LogLinear()),
    "absorbing, much noise": lambda: Absorbing(4, Constant(8.0)),  # most rows are masked, and cannot jump
    "gaussian": lambda: Gaussian(4, Exponential(1.0, 5.0), sigma_0=2.0, sigma_r=1.0),
    "birth/death": lambda: BirthDeath(4, Constant(2.0)),
    "rank one": lambda: RankOne(torch.tensor([0.5, 0.3, 0.2, 0.0]), LogLinear()),
    "rank one by site": lambda: RankOne(
        torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]])[[0, 1, 1]], LogLinear()
    ),
    "a state that never jumps": lambda: Dense(
        _cycle_and_one(), Constant(2.0), prior=torch.tensor([0.3, 0.3, 0.3, 0.1])
    ),
}


def _cycle_and_one() -> Tensor:
    """0 -> 1 -> 2 -> 0, while 3 stays."""
    rates = torch.zeros(4, 4)
    rates[0, 1] = rates[1, 2] = rates[2, 0] = 1.0
    return rates - torch.diag(rates.sum(1))


def batch(process: ForwardProcess, masked: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Rows, which of their sites are observed, and which are missing; some rows entirely, some in halves."""
    generator = torch.Generator().manual_seed(0)
    allowed = process.data_states.expand(SITES, -1).double()
    x0 = torch.multinomial(allowed, ROWS, replacement=True, generator=generator).T.contiguous()
    if not masked:
        return x0, None, None
    kind = torch.randint(4, (ROWS, SITES), generator=generator)
    observed, missing = kind == 0, kind == 1
    whole = torch.tensor([0, 1, 2, 3, 4, 13, 20])
    observed[whole], missing[whole] = True, False
    observed[[5, 9]], missing[[5, 9]] = False, True  # the first piece of four has no loss at all
    return x0, observed, missing


def losses(
    objective: Objective,
    reverse: ReverseProcess,
    x0: Tensor,
    observed: Tensor | None,
    missing: Tensor | None,
    pieces: int,
) -> tuple[Tensor, Tensor]:
    """The loss of every row, and the gradient of their mean, from so many pieces."""
    size, out = ROWS // pieces, []
    table = reverse.denoiser.table
    table.grad = None
    for piece in range(pieces):
        part = slice(piece * size, (piece + 1) * size)
        loss = objective(
            reverse,
            x0[part],
            observed=None if observed is None else Observed(observed[part], x0[part]),
            missing=None if missing is None else missing[part],
            generator=PartOfBatch(piece, pieces).manual_seed(5),
        )
        (loss.value.mean() / pieces).backward()
        out.append(loss.value.detach())
    return torch.cat(out), table.grad


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("masked", [False, True], ids=["all sites", "some observed, some missing"])
@pytest.mark.parametrize("name", PROCESSES)
def test_any_number_of_pieces_gives_every_row_the_same_loss(name: str, masked: bool) -> None:
    """To 1e-12 in float64, where only the order of sums may differ."""
    process = PROCESSES[name]()
    x0, observed, missing = batch(process, masked)
    reverse = ReverseProcess(process, TableDenoiser.random(4, SITES))
    for objective in OBJECTIVES + (SUBSAMPLED if process.prior().ndim == 1 else []):
        whole, gradient = losses(objective, reverse, x0, observed, missing, 1)
        assert bool(whole.isfinite().all())
        assert len(whole.unique()) > 1
        for pieces in (2, 3, 4):
            if (ROWS // pieces) % objective.samples_per_time:
                continue
            value, slope = losses(objective, reverse, x0, observed, missing, pieces)
            where = f"{objective!r} in {pieces} pieces"
            assert_close(value, whole, rtol=1e-12, atol=1e-12, msg=lambda why, where=where: f"{where}: {why}")
            assert_close(slope, gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("unchecked")
def test_one_piece_equals_an_ordinary_generator() -> None:
    process = PROCESSES["absorbing, much noise"]()
    x0, observed, missing = batch(process, True)
    assert observed is not None
    reverse = ReverseProcess(process, TableDenoiser.random(4, SITES))
    for objective in OBJECTIVES + SUBSAMPLED:
        plain = objective(
            reverse, x0, observed=Observed(observed, x0), missing=missing, generator=torch.Generator().manual_seed(5)
        )
        assert_close(plain.value.detach(), losses(objective, reverse, x0, observed, missing, 1)[0], rtol=0.0, atol=0.0)


def test_some_rows_cannot_jump() -> None:
    """The case that these tests are about does occur."""
    process = PROCESSES["absorbing, much noise"]()
    x = process.noise(batch(process, False)[0], 0.6, generator=torch.Generator().manual_seed(0))
    stuck = (process.exit_rate(x, 0.6) == 0).all(1)
    assert 0 < int(stuck.sum()) < ROWS
