"""NaN logits become an error that names the time and the site, never a sample."""

import pytest
import torch
from torch import Tensor, nn

from tauleap.denoise import NetworkDenoiser, TruncatedLogistic, undefined
from tauleap.noise import Absorbing, BirthDeath, Constant, ForwardProcess, LogLinear, Uniform
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    run_corrector,
    sample,
    uniform_grid,
)

SAMPLERS = (
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Extrapolated(),
    FirstHitting(),
    FirstJump(),
    NextReaction(step=0.1),
    TauLeaping("last"),
    Trapezoidal(),
    Uniformization(),
    WithCorrector(TauLeaping("last"), steps=1, scale=0.1),
)
PROCESSES = (Absorbing(4, LogLinear()), Uniform(4, Constant(0.5)), BirthDeath(4, Constant(1.0)))


class Broken(nn.Module):
    """Logits that are ``value`` at site (1, 0) of every third row, at times up to ``until``.

    The condition is the number of the row: samplers may evaluate some of the rows.
    """

    def __init__(self, value: float = torch.nan, until: float = 1.0, width: int = 4) -> None:
        super().__init__()
        self.value, self.until, self.width, self.calls = value, until, width, 0

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor | None = None) -> Tensor:
        self.calls += 1
        logits = torch.zeros(*x.shape, self.width)
        row = torch.arange(len(x)) if condition is None else condition
        logits[row % 3 == 2, 1, 0, 1] = self.value
        return torch.where((t <= self.until)[:, None, None, None], logits, 0.0)


def reversed_by(network: Broken, process: ForwardProcess = PROCESSES[0]) -> ReverseProcess:
    return ReverseProcess(process, NetworkDenoiser(network))


def fits(sampler: Sampler, process: ForwardProcess) -> bool:
    try:
        sampler.check(process)
    except ValueError:
        return False
    return True


CASES = [(sampler, process) for sampler in SAMPLERS for process in PROCESSES if fits(sampler, process)]


@pytest.fixture(params=["at once", "when the call ends"])
def moment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On the CPU, and as on an accelerator, where the host looks once in a call."""
    if request.param == "when the call ends":
        monkeypatch.setattr(undefined, "is_host", lambda device: False)
    return request.param


@pytest.mark.parametrize(("sampler", "process"), CASES, ids=repr)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_samplers(sampler: Sampler, process: ForwardProcess, value: float, moment: str) -> None:
    network = Broken(value)
    # Samplers with a clock for each sample evaluate some of the rows at a time. Under absorbing and uniform noise only
    # sites that move and candidates are looked at, except by the samplers that combine two predictions.
    clocks = isinstance(sampler, FirstHitting | Uniformization | NextReaction)
    some = clocks or not (isinstance(process, BirthDeath) or isinstance(sampler, Extrapolated | Trapezoidal))
    number, row = (r"[12] of \d+", r"\d") if some else ("2 of 36", "2")
    with pytest.raises(ValueError, match=rf"at t = \S+ for {number} sites, first at site \(1, 0\) of row {row}"):
        sample(
            reversed_by(network, process),
            sampler,
            (6, 3, 2),
            grid=uniform_grid(3, end=0.5),
            condition=torch.arange(6),
            generator=torch.Generator().manual_seed(0),
        )
    assert network.calls == 1 or some or moment == "when the call ends"


@pytest.mark.parametrize("final", ["mode", "sample"])
def test_the_final_pass(final: str, moment: str) -> None:
    with pytest.raises(ValueError, match=r"no distribution at t = 0\.2 for 1 of 24 sites"):
        sample(
            reversed_by(Broken(until=0.2), PROCESSES[1]),
            TauLeaping(),
            (4, 3, 2),
            grid=[1.0, 0.6, 0.2],
            final=final,
            generator=torch.Generator().manual_seed(0),
        )


def test_the_first_time_is_named(moment: str) -> None:
    with pytest.raises(ValueError, match=r"no distribution at t = 0\.6 for"):
        sample(reversed_by(Broken(until=0.7), PROCESSES[2]), TauLeaping(), (4, 3, 2), grid=[1.0, 0.8, 0.6, 0.4])


def test_a_trace(moment: str) -> None:
    with pytest.raises(ValueError, match=r"no distribution at t = 1 for"):
        sample(reversed_by(Broken()), TauLeaping(), (4, 3, 2), grid=[1.0, 0.5], trace=[1.0], final="none")


@pytest.mark.parametrize("exact", [False, True])
def test_correctors(exact: bool, moment: str) -> None:
    x = torch.randint(4, (4, 3, 2), generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match=r"no distribution at t = 0\.4 for 1 of 24 sites"):
        run_corrector(reversed_by(Broken(), PROCESSES[1]), x, 0.4, steps=1, step=0.01, exact=exact)


def test_a_truncated_logistic(moment: str) -> None:
    reverse = ReverseProcess(PROCESSES[2], TruncatedLogistic(Broken(width=2), 4))
    with pytest.raises(ValueError, match=r"for 1 of 24 sites, first at site \(1, 0\) of row 2"):
        sample(reverse, TauLeaping("last"), (4, 3, 2), grid=[1.0, 0.5])


def test_a_posterior_that_excludes_every_possible_x0(moment: str) -> None:
    """A masked model that is sure of state 1, given a site that is known to be 0: the mode would be some state.

    A trace looks at the predictions of all sites.
    """
    network = Broken()
    network.forward = lambda x, t: torch.tensor([-torch.inf, 0.0, -torch.inf, 0.0]).expand(*x.shape, 4)
    start = torch.full((2, 3, 2), 3).index_fill(1, torch.tensor([2]), 0)
    first = r"site \(2, 0\) of row 0; site \(2, 1\) of row 0; site \(2, 0\) of row 1 of the batch"
    seed = torch.Generator().manual_seed(0)  # both rows have an event before 0.5
    with pytest.raises(ValueError, match=f"for 4 of 12 sites, first at {first}"):
        sample(
            reversed_by(network), FirstHitting(), (2, 3, 2), grid=[1.0, 0.5], start=start, trace=[1.0], generator=seed
        )


def test_infinite_logits_that_leave_a_state_are_fine(moment: str) -> None:
    numbers = torch.arange(6)
    drawn = sample(reversed_by(Broken(-torch.inf)), TauLeaping(), (6, 3, 2), grid=uniform_grid(5), condition=numbers)
    assert bool((drawn.x0[2::3, 1, 0] != 1).all())
