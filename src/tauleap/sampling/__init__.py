"""Rates -> samples: one loop, ``sample``, and one file per sampler (Sections 4.3 and 4.4, Appendices F and H)."""

from tauleap.sampling.ancestral import Ancestral
from tauleap.sampling.choose import SamplingPlan, choose_sampling
from tauleap.sampling.corrector import WithCorrector, run_corrector
from tauleap.sampling.extrapolated import Extrapolated
from tauleap.sampling.first_hitting import FirstHitting
from tauleap.sampling.first_jump import FirstJump
from tauleap.sampling.grid import geometric_grid, noise_grid, uniform_grid
from tauleap.sampling.loop import Info, Samples, Trace, sample
from tauleap.sampling.next_reaction import NextReaction
from tauleap.sampling.planned import Planned
from tauleap.sampling.sampler import Sampler, StepInfo
from tauleap.sampling.tau_leaping import TauLeaping
from tauleap.sampling.trapezoidal import Trapezoidal
from tauleap.sampling.tuning import TimeTuning, TunedNumbers, Tuning, UnmaskingTuning, tuning_from_config
from tauleap.sampling.uniformization import Uniformization

__all__ = [
    "Ancestral",
    "Extrapolated",
    "FirstHitting",
    "FirstJump",
    "Info",
    "NextReaction",
    "Planned",
    "Sampler",
    "Samples",
    "SamplingPlan",
    "StepInfo",
    "TauLeaping",
    "TimeTuning",
    "Trace",
    "Trapezoidal",
    "TunedNumbers",
    "Tuning",
    "Uniformization",
    "UnmaskingTuning",
    "WithCorrector",
    "choose_sampling",
    "geometric_grid",
    "noise_grid",
    "run_corrector",
    "sample",
    "tuning_from_config",
    "uniform_grid",
]
