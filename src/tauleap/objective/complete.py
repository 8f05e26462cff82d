"""The complete bound: one pass, unbiased, every constant in it."""

from __future__ import annotations

from tauleap.objective.noised_batch import LossBatch, Pass
from tauleap.objective.objective import Loss, Objective, check_times
from tauleap.objective.times import Times, UniformTimes


class CompleteElbo(Objective):
    """Estimate the bound of Proposition 2 with its constant C, without bias and with one network evaluation.

        -log p(x0) <= KL(q_1|0(. | x0) || prior)                                                        "prior"
                      + int_eps^1 E_{x ~ q_t|0} sum_d sum_{v != x} [Rhat_v - C_v + C_v log(C_v / Rhat_v)] dt  "path"
                      + E_{x ~ q_eps|0} [-log p(x0 | x)]                                       "reconstruction"

    where C are the reverse rates given x0. The expectation over the paper's auxiliary state x~ is taken in closed form,
    so that one evaluation at x is enough, the integrand is never negative, and it is 0 only where the rates are exact.
    Its gradient is that of L_CT in expectation, for half the evaluations.

    Args:
        reconstruction: Add the last term, for which the network is evaluated at a second state (in the same pass). With
            it the value is a bound on -log p(x0) in nats; without it the loss from stopping at eps is missing, which
            matters little for training. Default: False.
        times: The distribution of the times. With ``ReweightedTimes`` the value is neither unbiased nor a bound.
            Default: U(0.01, 1).

    >>> CompleteElbo(reconstruction=True)
    CompleteElbo(reconstruction=True)
    """

    integrates = True

    def __init__(self, *, reconstruction: bool = False, times: Times | None = None) -> None:
        if not isinstance(reconstruction, bool):
            raise TypeError(f"reconstruction must be True or False, got {reconstruction!r}")
        self.reconstruction = reconstruction
        self.times = check_times(times, integral=self)

    @property
    def needs(self) -> frozenset[Pass]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return frozenset({"x_t", "x_eps"}) if self.reconstruction else frozenset({"x_t"})

    def evaluate(self, batch: LossBatch) -> Loss:
        prior = batch.sum(batch.reverse.process.prior_divergence(batch.x0))
        surprise = -batch.sum(batch.at("x_eps").log_prob(batch.x0)) if self.reconstruction else None
        divergence = batch.at("x_t").divergence(batch.x0)
        path = batch.mean_over_time(batch.sum(divergence), 1 - batch.times.eps)
        prior = prior.to(path.dtype)
        terms = {"prior": prior, "path": path}
        if surprise is None:
            return Loss(prior + path, terms)
        return Loss(prior + path + surprise, {**terms, "reconstruction": surprise})

    def __repr__(self) -> str:
        settings = ["reconstruction=True"] if self.reconstruction else []
        if self.times not in (None, UniformTimes()):
            settings.append(f"times={self.times!r}")
        return f"CompleteElbo({', '.join(settings)})"
