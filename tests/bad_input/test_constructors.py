"""Bad numbers, generators and laws, when things are made."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, Exponential, Gaussian, RankOne, Uniform
from tauleap.testing.examples import cycle, two_islands

INF, NAN = float("inf"), float("nan")
BETA = Constant(1.0)
LAW = torch.tensor([0.5, 0.25, 0.25])
Refuses = Callable[..., None]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Uniform(n, BETA),
        lambda n: Absorbing(n, BETA),
        lambda n: BirthDeath(n, BETA),
        lambda n: Gaussian(n, BETA, 1.0, 1.0),
    ],
    ids=["uniform", "absorbing", "birth-death", "gaussian"],
)
def test_num_states(refuses: Refuses, make: Callable[[object], object]) -> None:
    for too_few in (1, 0, -3):
        refuses(lambda n=too_few: make(n), ValueError, "num_states", ">= 2", f"got {too_few}")
    for no_number in (2.0, "3", None, True, torch.tensor(3)):
        refuses(lambda n=no_number: make(n), TypeError, "num_states", "whole number >= 2", type(no_number).__name__)


POSITIVE: dict[str, Callable[[object], object]] = {
    "beta": lambda v: Constant(v),
    "a": lambda v: Exponential(v, 2.0),
    "b": lambda v: Exponential(1.0, v),
    "rate": lambda v: BirthDeath(3, BETA, rate=v),
    "sigma_0": lambda v: Gaussian(3, BETA, v, 1.0),
    "sigma_r": lambda v: Gaussian(3, BETA, 1.0, v),
}


@pytest.mark.parametrize(("name", "make"), POSITIVE.items(), ids=POSITIVE.keys())
def test_numbers_above_0(refuses: Refuses, name: str, make: Callable[[object], object]) -> None:
    for value in (0.0, 0, -1.0, INF, -INF, NAN):
        refuses(lambda v=value: make(v), ValueError, f"{name} must be a finite number > 0", f"got {value!r}")
    for value in ("1", None, True, torch.tensor(1.0), [1.0], 1j):
        refuses(lambda v=value: make(v), TypeError, f"{name} must be a number > 0", type(value).__name__)


def test_a_schedule_that_falls(refuses: Refuses) -> None:
    for b in (1.0, 0.5):
        refuses(lambda b=b: Exponential(1.0, b), ValueError, "b must be > 1", f"got {b!r}", "Constant")


@pytest.mark.parametrize("schedule", [1.0, Constant, None, "cosine"])
def test_a_schedule_that_is_none(refuses: Refuses, schedule: object) -> None:
    for make in (lambda: Uniform(3, schedule), lambda: Dense(cycle(3), schedule), lambda: RankOne(LAW, schedule)):
        refuses(make, TypeError, "schedule must be a Schedule such as Constant(1.0)", repr(schedule))


def test_masks(refuses: Refuses) -> None:
    refuses(lambda: Absorbing(3, BETA, mask=3), ValueError, "mask must be one of the states 0..2", "got 3")
    refuses(lambda: Absorbing(3, BETA, mask=-1), ValueError, "mask", ">= 0", "got -1")
    refuses(lambda: Absorbing(3, BETA, mask=1.0), TypeError, "mask", "whole number", "float")


def changed(row: int, column: int, value: float) -> Tensor:
    generator = cycle(3)
    generator[row, column] = value
    return generator


def test_generators(refuses: Refuses) -> None:
    Dense(cycle(3), BETA)
    refuses(lambda: Dense(changed(0, 0, -2.0), BETA), ValueError, "sum to 0", "one sums to 1", "torch.diag")
    refuses(lambda: Dense(changed(0, 2, 0.001), BETA), ValueError, "sum to 0", "0.001")
    negative = cycle(3) + torch.tensor([[0.5, 0.0, -0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    refuses(lambda: Dense(negative, BETA), ValueError, "off-diagonal rates >= 0", "minimum of -0.5")
    refuses(lambda: Dense(changed(0, 1, INF), BETA), ValueError, "finite")
    refuses(lambda: Dense(changed(0, 1, NAN), BETA), ValueError, "finite")
    refuses(lambda: Dense(cycle(3)[:2], BETA), ValueError, "square matrix (S, S)", "(2, 3)")
    refuses(lambda: Dense(cycle(3)[0], BETA), ValueError, "square matrix (S, S)", "(3,)")
    refuses(lambda: Dense(torch.zeros(1, 1), BETA), ValueError, "S >= 2", "(1, 1)")
    refuses(lambda: Dense(torch.zeros(3, 3), BETA), ValueError, "at least one rate > 0", "all zeros")
    refuses(lambda: Dense(cycle(3).long(), BETA), TypeError, "floating-point tensor (S, S)", "torch.int64")
    refuses(lambda: Dense(cycle(3).tolist(), BETA), TypeError, "floating-point tensor (S, S)", "list")
    refuses(lambda: Dense(two_islands(), BETA), ValueError, "several closed classes", "prior=")


def test_priors_of_a_generator(refuses: Refuses) -> None:
    refuses(lambda: Dense(cycle(3), BETA, prior=LAW), ValueError, "prior must be stationary", "prior @ generator")
    four = torch.full((4,), 0.25)
    refuses(lambda: Dense(cycle(3), BETA, prior=four), ValueError, "prior must have shape (3,)", "(4,)")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("prior", lambda law: RankOne(law, BETA)),
        ("prior", lambda law: Dense(cycle(3), BETA, prior=law)),
        ("pmf", lambda law: ExactDenoiser(law, Uniform(3, BETA))),
    ],
    ids=["rank one", "dense", "exact"],
)
def test_laws(refuses: Refuses, name: str, make: Callable[[object], object]) -> None:
    refuses(lambda: make(2 * LAW), ValueError, f"{name} must sum to 1", "off by 1", "divide it by its sum")
    refuses(lambda: make(LAW - 0.001), ValueError, f"{name} must sum to 1", "off by 0.003")
    refuses(lambda: make(torch.tensor([1.5, -0.25, -0.25])), ValueError, f"{name} must hold", ">= 0", "-0.25")
    refuses(lambda: make(torch.tensor([NAN, 0.5, 0.5])), ValueError, f"{name} must hold finite")
    refuses(lambda: make(torch.tensor([1, 0, 0])), TypeError, f"{name} must be a floating-point tensor", "torch.int64")
    refuses(lambda: make([0.5, 0.25, 0.25]), TypeError, f"{name} must be a floating-point tensor", "list")


def test_laws_of_the_wrong_shape(refuses: Refuses) -> None:
    refuses(lambda: RankOne(torch.ones(1), BETA), ValueError, "(*shape, S) with S >= 2", "(1,)")
    refuses(lambda: RankOne(torch.tensor(1.0), BETA), ValueError, "(*shape, S)", "()")
    process = Uniform(3, BETA)
    refuses(lambda: ExactDenoiser(torch.full((4,), 0.25), process), ValueError, "(S,)*D with S = 3", "(4,)")
    refuses(lambda: ExactDenoiser(torch.full((3, 2), 1 / 6), process), ValueError, "(S,)*D with S = 3", "(3, 2)")
    refuses(lambda: ExactDenoiser(torch.tensor(1.0), process), ValueError, "(S,)*D with S = 3", "()")
