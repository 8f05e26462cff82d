"""The complete bound: one pass, unbiased, every constant in it."""

from __future__ import annotations

from tauleap.objective.noised_batch import LossBatch, Pass
from tauleap.objective.objective import Loss, Objective, check_times
from tauleap.objective.prior import prior_divergence
from tauleap.objective.times import Times, UniformTimes


class CompleteElbo(Objective):
    """An unbiased estimate of the bound of Proposition 2 with its constant C,

        -log p(x0) <= KL(q_1|0(. | x0) || prior)                                                        "prior"
                      + int_eps^1 E_{x ~ q_t|0} sum_d sum_{v != x} [Rhat_v - C_v + C_v log(C_v / Rhat_v)] dt  "path"
                      + E_{x ~ q_eps|0} [-log p(x0 | x)]                                       "reconstruction"

    where C are the reverse rates if x0 were known. The expectation over the paper's auxiliary state x~ is taken in
    closed form, so that one pass on x is enough, the integrand is never negative, and it is 0 only where the rates are
    right. Its gradient is that of L_CT in expectation, for half the passes.

    The last term needs a second pass (both go through the network together) and is there with ``reconstruction=True``
    only: with it the value is a bound on -log p(x0) in nats, without it it lacks what is lost by stopping at eps, which
    training hardly needs. ``times`` says at which times to look, U(0.01, 1) if absent; with ``ReweightedTimes``, which
    weigh the times anew, the value is neither unbiased nor a bound.
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
        divergence = batch.at("x_t").divergence(batch.x0)
        path = batch.mean_over_time(batch.sum(divergence), 1 - batch.times.eps)
        prior = batch.sum(prior_divergence(batch.reverse.process, batch.x0)).to(path.dtype)
        terms = {"prior": prior, "path": path}
        if self.reconstruction:
            terms["reconstruction"] = -batch.sum(batch.at("x_eps").log_prob(batch.x0))
        value = prior + path
        return Loss(value + terms["reconstruction"] if self.reconstruction else value, terms)

    def __repr__(self) -> str:
        settings = ["reconstruction=True"] if self.reconstruction else []
        if self.times not in (None, UniformTimes()):
            settings.append(f"times={self.times!r}")
        return f"CompleteElbo({', '.join(settings)})"
