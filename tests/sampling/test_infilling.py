"""Infilling is exact: what is given conditions the law of the rest, for every sampler and any pattern.

Sites that are given carry no noise, so that the others are a reverse process of their own, that of the conditional law.
"""

import pytest
import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_states
from tauleap.evaluate.leaps import leap_laws
from tauleap.evaluate.pushforward import marginal, push_sites, pushforward_grid
from tauleap.observed import Observed
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
)
from tauleap.testing.cases import NAMES, correlated, counts, draws
from tauleap.testing.laws import assert_drawn_from

LEVEL = 1e-3
DRAWS = 10_000
SITES = 3
GRID = [1.0, 0.7, 0.4, 0.1]
PATTERNS = {"prefix": {0: 1}, "suffix": {2: 0}, "hole": {1: 2}, "both ends": {0: 0, 2: 1}}
"""Which sites are given, and their values."""
SAMPLERS: tuple[Sampler, ...] = (
    TauLeaping("add"),
    TauLeaping("reject"),
    TauLeaping("last"),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Trapezoidal(),
    Extrapolated(),
    FirstJump(),
    NextReaction(step=0.15),
    WithCorrector(Ancestral(), steps=2, scale=0.4, start=0.6),
    WithCorrector(TauLeaping(), steps=1, scale=0.2),
    Uniformization(),
    FirstHitting(),
)


def conditional(reverse: ReverseProcess, law: Tensor, given: dict[int, int]) -> tuple[ReverseProcess, Tensor]:
    """The reverse process of the sites that are not given, and the law of its data."""
    rest = law[tuple(given.get(site, slice(None)) for site in range(law.ndim))]
    rest = rest / rest.sum()
    return ReverseProcess(reverse.process, ExactDenoiser(rest, reverse.process)), rest


def observed(given: dict[int, int], number: int) -> Observed:
    mask = torch.tensor([site in given for site in range(SITES)])
    return Observed(mask, torch.tensor([given.get(site, 0) for site in range(SITES)]).expand(number, -1).contiguous())


def fits(sampler: Sampler, reverse: ReverseProcess) -> bool:
    try:
        sampler.check(reverse.process)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_rates_are_those_of_the_conditional_distribution(name: str, pattern: str) -> None:
    given = PATTERNS[pattern]
    reverse, law = correlated(name, SITES)
    rest, _ = conditional(reverse, law, given)
    free = [site for site in range(SITES) if site not in given]
    y = joint_states(reverse.process.num_states, len(free))
    known = observed(given, len(y))
    x = known.fill(torch.zeros(len(y), SITES, dtype=torch.int64)).index_copy(1, torch.tensor(free), y)
    for t in (0.05, 0.8):
        for whole, part in (
            (reverse.rates(x, t, observed=known), rest.rates(y, t)),
            (reverse.corrector_rates(x, t, observed=known), rest.corrector_rates(y, t)),
        ):
            torch.testing.assert_close(whole[:, free], part, rtol=1e-10, atol=1e-12)
            assert not whole[:, list(given)].any(), "a given site has a rate"
        torch.testing.assert_close(
            reverse.step_probs(x, t, 0.02, observed=known)[:, free], rest.step_probs(y, t, 0.02), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize(("name", "pattern"), list(zip(NAMES, PATTERNS, strict=True)))
def test_every_sampler_agrees_with_the_conditional_distribution(
    name: str, pattern: str, generator: torch.Generator
) -> None:
    """On a coarse grid, against the law pushed through the same steps; exact samplers against q itself.

    One pattern for each kind of noise: the test above has them all.
    """
    given = PATTERNS[pattern]
    reverse, law = correlated(name, SITES)
    rest, data = conditional(reverse, law, given)
    free = [site for site in range(SITES) if site not in given]
    known = observed(given, DRAWS)
    begin, end = marginal(rest, data, GRID[0]), marginal(rest, data, GRID[-1])
    for sampler in SAMPLERS:
        if not fits(sampler, reverse):
            continue
        start = torch.zeros(DRAWS, SITES, dtype=torch.int64)
        start[:, free] = draws(begin, DRAWS, generator)
        found = sample(
            reverse, sampler, start.shape, grid=GRID, start=start, final="none", observed=known, generator=generator
        ).x0
        assert torch.equal(found[:, list(given)], known.values[:, list(given)]), f"{sampler} has moved a given site"
        exact = isinstance(sampler, Uniformization | FirstHitting)
        expected = end if exact else pushforward_grid(sampler, rest, begin, GRID)
        assert_drawn_from(counts(found[:, free], expected), expected.reshape(-1), LEVEL)


@pytest.mark.parametrize("exact", [False, True])
def test_at_a_fixed_time(exact: bool, generator: torch.Generator) -> None:
    """From one state; by a leap, against its law, and jump by jump for so long that q_t is reached."""
    given = PATTERNS["hole"]
    reverse, law = correlated("uniform", SITES)
    rest, data = conditional(reverse, law, given)
    known, step = observed(given, DRAWS), 6.0 if exact else 0.2
    after, _ = run_corrector(
        reverse,
        torch.zeros(DRAWS, SITES, dtype=torch.int64),
        0.4,
        steps=1,
        step=step,
        exact=exact,
        observed=known,
        generator=generator,
    )
    assert torch.equal(after[:, 1], known.values[:, 1])
    zero = torch.zeros(1, 2, dtype=torch.int64)
    leapt = push_sites(
        torch.ones(1, dtype=torch.float64), leap_laws(rest.corrector_rates(zero, 0.4), zero, step, "reject")
    )
    expected = marginal(rest, data, 0.4) if exact else leapt
    assert_drawn_from(counts(after[:, [0, 2]], expected), expected.reshape(-1), LEVEL)
