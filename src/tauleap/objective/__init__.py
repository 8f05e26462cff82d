"""p(x0 | x_t) and the data -> a loss: bounds on -log p(x0) in nats, one file per objective.

With ``C_v = R_t(v, x) q(v | x0) / q(x | x0)`` the reverse rates that know x0, and Rhat those of the model,

    -log p(x0) <= KL(q_1|0(. | x0) || prior)
                  + int E_{x ~ q_t|0} sum_d sum_{v != x} [Rhat_v - C_v + C_v log(C_v / Rhat_v)] dt

is what ``CompleteElbo`` estimates, constants and all; ``PaperElbo`` has its gradient, by the paper's own formulae;
``AnyOrderElbo`` estimates that of absorbing noise with less variance; ``DiscreteTimeElbo`` is the bound of the same
process cut at K times; ``CrossEntropy`` is not a bound but helps. They add and scale, and objectives that are added
share one draw of the noise and one pass of the network:

>>> PaperElbo(passes=1) + 0.001 * CrossEntropy()
PaperElbo(passes=1) + 0.001 * CrossEntropy()
"""

from tauleap.objective.any_order import AnyOrderElbo
from tauleap.objective.complete import CompleteElbo
from tauleap.objective.cross_entropy import CrossEntropy
from tauleap.objective.discrete_time import DiscreteTimeElbo
from tauleap.objective.noised_batch import LossBatch, NoisedBatch, Pass
from tauleap.objective.objective import Loss, Objective
from tauleap.objective.paper import PaperElbo
from tauleap.objective.subsampled import Subsampled
from tauleap.objective.times import (
    GridTimes,
    LogUniformTimes,
    ReweightedTimes,
    Times,
    UniformTimes,
    WeightedTimes,
    fitted_times,
)

__all__ = [
    "AnyOrderElbo",
    "CompleteElbo",
    "CrossEntropy",
    "DiscreteTimeElbo",
    "GridTimes",
    "LogUniformTimes",
    "Loss",
    "LossBatch",
    "NoisedBatch",
    "Objective",
    "PaperElbo",
    "Pass",
    "ReweightedTimes",
    "Subsampled",
    "Times",
    "UniformTimes",
    "WeightedTimes",
    "fitted_times",
]
