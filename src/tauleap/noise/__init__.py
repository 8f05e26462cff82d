"""x0 -> x_t: schedules, and one file per forward process."""

from tauleap.noise.absorbing import Absorbing
from tauleap.noise.birth_death import BirthDeath
from tauleap.noise.dense import Dense
from tauleap.noise.gaussian import Gaussian
from tauleap.noise.kernel import DenseKernel, Kernel
from tauleap.noise.process import ForwardProcess
from tauleap.noise.rank_one import RankOne, RankOneKernel, RankOneProcess
from tauleap.noise.schedule import Constant, Cosine, Exponential, LogLinear, Schedule
from tauleap.noise.uniform import Uniform

__all__ = [
    "Absorbing",
    "BirthDeath",
    "Constant",
    "Cosine",
    "Dense",
    "DenseKernel",
    "Exponential",
    "ForwardProcess",
    "Gaussian",
    "Kernel",
    "LogLinear",
    "RankOne",
    "RankOneKernel",
    "RankOneProcess",
    "Schedule",
    "Uniform",
]
