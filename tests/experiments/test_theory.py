"""The mathematics of experiments/theory on small cases, and the agreement of its pages with its results."""

import importlib
import math
import re
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "experiments" / "theory"
sys.path[:0] = [str(THEORY)]

import _bound  # noqa: E402
import _lemmas  # noqa: E402
import _small  # noqa: E402
import factorised  # noqa: E402
import one_pass  # noqa: E402

from tauleap.evaluate.joint_space import joint_generator  # noqa: E402

SCRIPTS = sorted(path.stem for path in THEORY.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_pages_are_written_from_the_results(name: str) -> None:
    experiment = importlib.import_module(name).EXPERIMENT
    page = (ROOT / "docs" / "experiments" / "theory" / f"{name}.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- results: begin -->\n(.*)\n<!-- results: end -->", page, re.S)
    assert block is not None
    assert block[1] == experiment.block(experiment.stored())
    figures = re.findall(r"\((\.\./\.\./figures/theory_[^)]*)\)", block[1])
    assert figures
    assert all((ROOT / "docs" / "experiments" / "theory" / figure).exists() for figure in figures)


def test_the_bound_holds_in_every_case_that_was_computed() -> None:
    found = importlib.import_module("bound").EXPERIMENT.stored()
    cases = [row for rows in found.values() if isinstance(rows, list) for row in rows]
    assert {row["sites"] for row in cases} == {1, 2, 3, 4, 5}
    assert [row for row in cases if row["truth"]["whole"] > row["bound"]["whole"]] == []
    assert "NOT ALL" not in (ROOT / "docs" / "experiments" / "theory" / "lemmas.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", _small.NOISES)
@pytest.mark.parametrize("error", [0.0, 0.3])
def test_the_bound_of_theorem_1_holds_term_by_term(name: str, error: float) -> None:
    reverse, law = _small.reversed_chain(name, 1.5, sites=2)
    known, steps = _bound.constants(reverse, law), 20
    terms, found = known.terms(1 / steps, error), _bound.truth(reverse, law, steps, error)
    assert found.whole <= sum(terms.values())
    assert (
        found.whole <= found.rates + found.leaps + found.mixing + 1e-12
    )  # Reverse steps contract the total variation.
    for part in ("rates", "leaps", "mixing"):
        assert getattr(found, part) <= terms[part] + 1e-15
    assert (found.rates > 0) == (error > 0)


def test_the_constants_of_the_bound_are_those_of_their_definitions() -> None:
    """In closed form: uniform noise, where C1 is at t = 0, and two states, where C2 can be written down."""
    reverse, law = _small.reversed_chain("uniform", 2.0, sites=3)
    known = _bound.constants(reverse, law)
    assert known.c1 == pytest.approx(math.exp(0.6 + 2 * 0.5))
    assert known.t_mix == pytest.approx(math.log(4 * 2 / 3) / (3 * 2.0))
    assert known.exit_rate == pytest.approx(4.0)
    a, b = 0.7, 2.0  # rates from 0 up to 1 and from 1 down to 0: z = 1 and z = -1 differ, and so do the exits
    assert _bound.rate_change(torch.tensor([[[0.0, a]], [[b, 0.0]]])) == pytest.approx(a + b + (b - a))


@pytest.mark.parametrize("name", _small.NOISES)
def test_rates_from_the_marginals_are_those_of_the_formula(name: str) -> None:
    reverse, law = _small.reversed_chain(name, 1.5, sites=2)
    states = _bound.joint_states(3, 2)
    torch.testing.assert_close(_bound.true_rates(reverse, law, 0.3), reverse.rates(states, 0.3))
    flow = law.reshape(-1) @ joint_generator(_bound.true_rates(reverse, law, 0.0))
    forward = joint_generator(reverse.process.rates_from(states, 0.0, dtype=torch.float64))
    torch.testing.assert_close(flow, -law.reshape(-1) @ forward)  # the reverse chain undoes what the forward one does


def test_leaps_without_an_error_reach_the_data_in_the_limit() -> None:
    reverse, law = _small.reversed_chain("uniform", 6.0, sites=1)
    one, other = (_bound.truth(reverse, law, steps).whole for steps in (200, 400))
    assert other == pytest.approx(one / 2, rel=0.05)


@pytest.mark.parametrize("name", ["uniform", "absorbing"])
def test_discrete_time_misses_dependent_data_and_continuous_time_does_not(name: str) -> None:
    reverse, law = factorised.with_exact_posterior(name, 2, 0.6)
    one, other = (factorised.discrete_error(reverse, law, steps) for steps in (24, 48))
    assert other == pytest.approx(one / 2, rel=0.1)
    assert factorised.chain_error(reverse, law, 40) < 3e-5
    assert factorised.discrete_error(*factorised.with_exact_posterior(name, 2, 0.0), 3) < 1e-14


@pytest.mark.parametrize("name", _small.NOISES)
def test_the_lemmas_of_appendix_b_hold(name: str) -> None:
    """The single step, the leap, and the change of the rates, which is checked against a difference too."""
    reverse, law = _small.reversed_chain(name, 2.0, sites=2)
    known, t, tau = _bound.constants(reverse, law), 0.3, 0.02
    step, rates = _lemmas.single_step(reverse, law, t, tau), _bound.true_rates(reverse, law, t)
    reach = known.exit_rate * known.num_states * known.sites * known.c1
    assert 0 < step["truth"] <= step["lemma"] <= (reach * tau) ** 2
    assert 0 < _lemmas.leap_step(rates, tau)["leap"] <= known.c2 * float(rates.sum((-1, -2)).max()) * tau**2 / 2
    change = _lemmas.rate_slope(reverse, law, t)
    later, earlier = (_bound.true_rates(reverse, law, t + sign * 1e-5) for sign in (1, -1))
    assert change == pytest.approx(float((later - earlier).abs().max()) / 2e-5, rel=1e-5)
    assert change <= 2 * known.exit_rate * reach * known.c1


@pytest.mark.parametrize("size", [0.0, 0.7])
def test_cross_entropy_bounds_the_discrete_bound(size: float) -> None:
    reverse, law = _small.reversed_chain("uniform", 1.0, sites=2)
    wrong = _lemmas.ReverseProcess(reverse.process, _lemmas.Perturbed(law, reverse.process, size))
    for steps in (1, 3):
        found = _lemmas.discrete_bounds(wrong, law, steps)
        assert found["entropy"] <= found["likelihood"] <= found["ldt"] + 1e-12
        assert found["ldt"] <= found["bound"] + 1e-12
        assert (found["bound"] - found["ldt"] < 1e-9) == (steps == 1)  # one step is L_ll and nothing else


def test_kernels_are_exponentials_of_the_integral_where_rates_commute() -> None:
    commuting, *others = _lemmas.commuting_errors((0.0, 0.1, 0.2))
    assert commuting["commutator"] < 1e-14
    assert commuting["error"] < 1e-14
    assert others[1]["error"] == pytest.approx(2 * others[0]["error"], rel=0.05)


def test_the_law_after_one_more_jump() -> None:
    """Uniform noise leaves all states equally fast, and then it is q_t + delta t dq_t/dt with nothing left out."""
    reverse, law = _small.reversed_chain("uniform", 2.0, sites=2)
    q = _bound.marginal(reverse, law, 0.3)
    jumped, exits = one_pass.one_jump(reverse.process, q, 0.3)
    change = q.reshape(-1) @ joint_generator(
        reverse.process.rates_from(_bound.joint_states(3, 2), 0.3, dtype=torch.float64)
    )
    torch.testing.assert_close(jumped, q + (change / exits).reshape(q.shape))
    assert float(1 / exits[0]) == pytest.approx(1 / (2 * 2 * 2.0))
