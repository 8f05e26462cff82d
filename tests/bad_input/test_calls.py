"""Bad states, times, shapes and sites, at every door."""

from collections.abc import Callable
from functools import partial

import jaxtyping
import pytest
import torch
from torch import Tensor, nn

from tauleap import Observed, ReverseProcess
from tauleap.denoise import ExactDenoiser, Guided, NetworkDenoiser, Posterior
from tauleap.noise import Absorbing, BirthDeath, Constant, ForwardProcess, RankOne, Uniform
from tauleap.testing import GivenLogits

NAN = float("nan")
BETA = Constant(1.0)
LAW = torch.tensor([0.5, 0.25, 0.25])
SITES = torch.tensor([0])
Refuses = Callable[..., None]


def test_the_checker_of_tests_is_out_of_the_way(refuses: Refuses) -> None:
    refuses(lambda: Uniform("three", BETA), TypeError, "num_states", "whole number", "'three'", "str")
    jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(jaxtyping.TypeCheckError):
        Uniform("three", BETA)


PROCESSES = {
    "rank one": lambda: Uniform(3, BETA),
    "matrix": lambda: BirthDeath(3, BETA),
    "laws of their own": lambda: RankOne(torch.full((2, 3), 1 / 3), BETA),
}

# Everything that takes states (2, 2) of a process with 3 states, and a time.
ENTRIES: dict[str, Callable[[ForwardProcess, Tensor, object], object]] = {
    "noise": lambda process, x, t: process.noise(x, t),
    "kernel_from": lambda process, x, t: process.kernel_from(x, t),
    "kernel_into": lambda process, x, t: process.kernel_into(x, t),
    "rates_from": lambda process, x, t: process.rates_from(x, t),
    "rates_into": lambda process, x, t: process.rates_into(x, t),
    "exit_rate": lambda process, x, t: process.exit_rate(x, t),
    "posterior": lambda process, x, t: reverse(process).posterior(x, t),
    "ratios": lambda process, x, t: reverse(process).ratios(x, t),
    "rates": lambda process, x, t: reverse(process).rates(x, t),
    "corrector_rates": lambda process, x, t: reverse(process).corrector_rates(x, t),
    "reverse exit_rate": lambda process, x, t: reverse(process).exit_rate(x, t),
    "draw_destination": lambda process, x, t: reverse(process).at(x, t).draw_destination(SITES),
    "exact": lambda process, x, t: ExactDenoiser(torch.full((3, 3), 1 / 9), process)(x, t),
}

every_process = pytest.mark.parametrize("make", PROCESSES.values(), ids=PROCESSES.keys())
every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())


def reverse(process: ForwardProcess) -> ReverseProcess:
    return ReverseProcess(process, GivenLogits(torch.zeros(2, 2, 3)))


@every_process
@every_entry
def test_states(refuses: Refuses, make: Callable[[], ForwardProcess], entry: Callable[..., object]) -> None:
    process = make()
    good = torch.tensor([[0, 1], [2, 0]])
    entry(process, good, 0.5)
    refuses(lambda: entry(process, good + 1, 0.5), ValueError, "states 0..2", "from 1 to 3")
    refuses(lambda: entry(process, good - 1, 0.5), ValueError, "states 0..2", "from -1 to 1")
    refuses(lambda: entry(process, good.double(), 0.5), TypeError, "int64", "torch.float64", ".long()")
    refuses(lambda: entry(process, good.int(), 0.5), TypeError, "int64", "torch.int32", ".long()")
    refuses(lambda: entry(process, good > 0, 0.5), TypeError, "int64", "torch.bool")
    refuses(lambda: entry(process, good.tolist(), 0.5), TypeError, "int64 tensor (batch, *shape)", "list")
    refuses(lambda: entry(process, good[0, 0], 0.5), ValueError, "batch axis", "()")


@every_process
@every_entry
def test_times(refuses: Refuses, make: Callable[[], ForwardProcess], entry: Callable[..., object]) -> None:
    process, x = make(), torch.tensor([[0, 1], [2, 0]])
    for good in (1e-9, 1, 1.0, torch.tensor(0.5), torch.tensor([0.5, 1.0]), torch.tensor([0.1, 0.2]).double()):
        entry(process, x, good)
    refuses(lambda: entry(process, x, 1.5), ValueError, "t must lie in [0, 1]", "1.5")
    refuses(lambda: entry(process, x, -0.25), ValueError, "t must lie in [0, 1]", "-0.25")
    refuses(lambda: entry(process, x, NAN), ValueError, "t must lie in [0, 1]", "nan")
    refuses(lambda: entry(process, x, torch.tensor([0.5, 2.0])), ValueError, "[0, 1]", "[0.5, 2.0]")
    refuses(lambda: entry(process, x, torch.tensor([0.5, 0.5, 0.5])), ValueError, "() or (2,)", "(3,)")
    refuses(lambda: entry(process, x, torch.tensor([[0.5, 0.5]])), ValueError, "() or (2,)", "(1, 2)")
    refuses(lambda: entry(process, x, torch.tensor(1)), TypeError, "floating-point time in [0, 1]", "torch.int64")
    refuses(lambda: entry(process, x, "0.5"), TypeError, "a number or a tensor of times in [0, 1]", "str")
    refuses(lambda: entry(process, x, True), TypeError, "a number or a tensor of times in [0, 1]", "bool")
    refuses(lambda: entry(process, x, None), TypeError, "a number or a tensor of times in [0, 1]", "NoneType")


@every_process
@pytest.mark.parametrize("name", ["noise", "kernel_from", "kernel_into", "propagate"])
def test_the_earlier_time(refuses: Refuses, make: Callable[[], ForwardProcess], name: str) -> None:
    process = make()
    argument = torch.ones(2, 2, 3) if name == "propagate" else torch.tensor([[0, 1], [2, 0]])
    call = getattr(process, name)
    call(argument, 0.5, 0.5)
    call(argument, 0.5, torch.tensor([0.1, 0.5]))
    refuses(lambda: call(argument, 0.5, 0.6), ValueError, "s must not be later than t", "0.6", "0.5")
    refuses(lambda: call(argument, 0.5, torch.tensor([0.1, 0.6])), ValueError, "s must not be later than t")
    refuses(lambda: call(argument, 0.5, -0.1), ValueError, "s must lie in [0, 1]", "-0.1")
    refuses(lambda: call(argument, 0.5, torch.tensor([0.1, 0.2, 0.3])), ValueError, "s must", "() or (2,)", "(3,)")


@every_process
def test_what_is_propagated(refuses: Refuses, make: Callable[[], ForwardProcess]) -> None:
    process = make()
    refuses(lambda: process.propagate(torch.ones(2, 2, 4), 0.5), ValueError, "(batch, *shape, 3)", "(2, 2, 4)")
    refuses(lambda: process.propagate(torch.ones(3), 0.5), ValueError, "(batch, *shape, 3)", "(3,)")
    refuses(lambda: process.propagate(torch.ones(2, 2, 3).long(), 0.5), TypeError, "floating-point", "torch.int64")
    refuses(lambda: process.propagate([1.0, 0.0, 0.0], 0.5), TypeError, "floating-point", "list")
    refuses(lambda: process.propagate(torch.ones(2, 2, 3), 1.5), ValueError, "[0, 1]", "1.5")


@every_process
def test_sites(refuses: Refuses, make: Callable[[], ForwardProcess]) -> None:
    process, x = make(), torch.tensor([[0, 1], [2, 0]])
    for draw in (reverse(process).at(x, 0.5).draw_destination, partial(process.draw_jump, x)):
        refuses(partial(draw, torch.tensor([0, 4])), ValueError, "positions 0..3", "from 0 to 4")
        refuses(partial(draw, torch.tensor([-1])), ValueError, "positions 0..3", "from -1 to -1")
        refuses(partial(draw, torch.tensor([[0]])), ValueError, "one axis", "(1, 1)")
        refuses(partial(draw, torch.tensor([0.0])), TypeError, "sites must be", "int64", "torch.float32")
        refuses(partial(draw, [0]), TypeError, "sites must be", "int64", "list")
    mask = torch.ones(2, dtype=torch.bool)
    refuses(lambda: reverse(process).at(x, 0.5).draw_destination(mask), ValueError, "the shape of x, (2, 2)", "(2,)")
    refuses(lambda: reverse(process).at(x, 0.0).draw_destination(SITES), ValueError, "exit rate", "is 0")
    refuses(lambda: process.draw_jump(x.double(), SITES), TypeError, "int64", "torch.float64")
    refuses(lambda: process.draw_jump(x + 1, SITES), ValueError, "states 0..2", "from 1 to 3")


@every_entry
def test_shapes_where_sites_have_laws_of_their_own(refuses: Refuses, entry: Callable[..., object]) -> None:
    process = PROCESSES["laws of their own"]()
    for shape in ((2, 3), (2,), (2, 1, 2), (2, 2, 1), (2, 2, 2)):
        x = torch.zeros(shape, dtype=torch.int64)
        refuses(lambda x=x: entry(process, x, 0.5), ValueError, "the sites (2,)", str(shape))
    refuses(lambda: process.propagate(torch.ones(2, 3), 0.5), ValueError, "the sites (2,)", "(2,)")
    refuses(process.generator, ValueError, "laws of their own", "(2, 3)", "RankOne(prior[site], schedule)")


def test_denoisers(refuses: Refuses) -> None:
    process = Uniform(3, BETA)
    exact = ExactDenoiser(LAW, process)
    x = torch.tensor([[0, 1]])
    refuses(lambda: exact(x, 0.5), ValueError, "pmf has 1 dimensions", "1 sites", "(1, 2)")
    refuses(lambda: exact(x[:, :1], 0.5, condition=torch.zeros(1)), TypeError, "takes no condition")
    refuses(lambda: ExactDenoiser(LAW, BETA), TypeError, "process must be a ForwardProcess", "Constant")
    refuses(lambda: NetworkDenoiser(lambda x, t: x), TypeError, "torch.nn.Module", "function")
    refuses(lambda: Guided(nn.Linear(3, 3), 2.0, null_label=2), TypeError, "must be a Denoiser", "Linear")
    refuses(lambda: Posterior(torch.zeros(1, 3).long()), TypeError, "logits must be a floating-point", "torch.int64")
    refuses(lambda: Posterior([0.0]), TypeError, "logits must be a floating-point", "list")


def test_reverse_processes(refuses: Refuses) -> None:
    process = Uniform(3, BETA)
    exact = ExactDenoiser(LAW, process)
    refuses(lambda: ReverseProcess(exact, process), TypeError, "process must be a ForwardProcess", "ExactDenoiser")
    refuses(lambda: ReverseProcess(process, nn.Linear(3, 3)), TypeError, "Linear", "NetworkDenoiser(network)")
    four = ReverseProcess(process, GivenLogits(torch.zeros(1, 1, 4)))
    refuses(lambda: four.rates(torch.tensor([[0]]), 0.5), ValueError, "(1, 1, 3)", "got (1, 1, 4)")


def test_given_sites(refuses: Refuses) -> None:
    values = torch.tensor([[0, 1], [2, 0]])
    mask = values > 0
    refuses(lambda: Observed(mask.int(), values), TypeError, "mask must be a bool tensor", "torch.int32")
    refuses(lambda: Observed([True], values), TypeError, "mask must be a bool tensor", "list")
    refuses(lambda: Observed(mask, values.double()), TypeError, "values", "int64", "torch.float64")
    refuses(lambda: Observed(mask, values.tolist()), TypeError, "values", "int64", "list")
    refuses(lambda: Observed(mask[:, :1], values), ValueError, "(2, 2)", "(2,)", "got (2, 1)")
    refuses(lambda: Observed(torch.tensor([True] * 3), values), ValueError, "(2, 2)", "got (3,)")
    backwards = reverse(Uniform(3, BETA))
    for call in (backwards.rates, backwards.posterior, backwards.exit_rate, backwards.corrector_rates):
        few = Observed(mask[:1], values[:1])
        refuses(
            lambda call=call, few=few: call(values, 0.5, observed=few), ValueError, "the shape of x, (2, 2)", "(1, 2)"
        )
        wrong = Observed(mask, values + 5)
        refuses(
            lambda call=call, wrong=wrong: call(values, 0.5, observed=wrong),
            ValueError,
            "observed values",
            "states 0..2",
        )
    masked = Observed(mask, torch.full_like(values, 2))
    absorbing = reverse(Absorbing(3, BETA))
    refuses(lambda: absorbing.rates(values, 0.5, observed=masked), ValueError, "states that data can have", "got 2")
