"""The exact pushforward of a distribution under the steps of a sampler, on a small joint space.

Given the joint state x, the sites of a leap or of an ancestral step are independent, so a step is known by the law of
each site, (S^D, D, S), and costs one product over the sites. Steps of two stages go through all pairs of states. With
an exact denoiser the distance from the true marginal is the error of the method, to sixteen digits, where a million
draws would show three; with a trained denoiser the result is the distribution of its samples.
"""

from tauleap.evaluate.independent_sites import push_pairs, push_sites
from tauleap.evaluate.leaps import leap_laws
from tauleap.evaluate.pushforward import planned as _planned  # noqa: F401 (registers its kernel)
from tauleap.evaluate.pushforward.gibbs import push_gibbs
from tauleap.evaluate.pushforward.laws import (
    apply_final,
    apply_mode,
    laws_at,
    marginal,
    prior,
    pushforward_grid,
    reverse_chain_law,
    sample_law,
    trajectory,
)
from tauleap.evaluate.pushforward.samplers import push_corrector
from tauleap.evaluate.pushforward.step import COARSE, FULL, Accuracy, pushforward_step

__all__ = [
    "COARSE",
    "FULL",
    "Accuracy",
    "apply_final",
    "apply_mode",
    "laws_at",
    "leap_laws",
    "marginal",
    "prior",
    "push_corrector",
    "push_gibbs",
    "push_pairs",
    "push_sites",
    "pushforward_grid",
    "pushforward_step",
    "reverse_chain_law",
    "sample_law",
    "trajectory",
]
