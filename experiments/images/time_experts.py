"""Two networks for two ranges of time: one removes the noise of pixels, the other decides what the digit looks like."""

from __future__ import annotations

from tauleap.denoise import Denoiser, TruncatedLogistic
from tauleap.network import TimeExperts, UNet
from tauleap.objective import CompleteElbo, LogUniformTimes, Objective, ReweightedTimes
from tauleap.recipes.images import LEVELS, small_unet, subsampled

CUT = 0.3
"""The time that separates the two networks: before it a digit can be recognised and only its pixels are noisy."""


def gradient_balanced() -> Objective:
    """Return the complete bound from :data:`CUT` on, weighted in time by one over the norm of its gradient.

    The norms are those of one network for all times, after 3,000 steps with :func:`tauleap.recipes.images.weighted`, on
    48 images per time: 214 at t = 0.3, 124 at 0.5, 91 at 0.65, 29 at 0.75, 4.1 at 0.85 and 0.57 at 0.93.
    """
    weights = [0.5, 0.6, 0.8, 1.0, 1.05, 1.2, 1.35, 1.9, 3.2, 7.0, 19.0, 55.0, 200.0, 220.0]
    return subsampled(CompleteElbo(times=ReweightedTimes(CUT, weights=weights)))


def log_uniform() -> Objective:
    """Return the complete bound at times uniform in log t, because its integrand grows like 1 / t towards the data.

    It uses half of the sites: at early times the gradient is mostly noise, and fewer sites make it worse.
    """
    return subsampled(CompleteElbo(times=LogUniformTimes(0.01)), site_fraction=0.5, samples_per_time=4)


def early_denoiser(labels: bool = False) -> Denoiser:
    """Return a denoiser for early times, smaller than ``small_denoiser`` and without patches.

    Args:
        labels: whether the network is class-conditional. Default: false.
    """
    return TruncatedLogistic(_early_network(labels), LEVELS)


def denoiser_of_time_experts(labels: bool = False) -> Denoiser:
    """Return the network of :func:`early_denoiser` before :data:`CUT`, and that of ``small_denoiser`` after it.

    Args:
        labels: whether the networks are class-conditional. Default: false.
    """
    return TruncatedLogistic(TimeExperts([_early_network(labels), small_unet(LEVELS, labels)], at=[CUT]), LEVELS)


def _early_network(labels: bool) -> UNet:
    return small_unet(LEVELS, labels, width=32, depth=1, attention_levels=(), patch=1)
