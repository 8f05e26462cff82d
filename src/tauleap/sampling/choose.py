"""Choose the sampler and the grid: the defaults of the Python interface and of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tauleap import _check
from tauleap._defaults import SAMPLING_STEPS
from tauleap.noise import ForwardProcess
from tauleap.sampling.ancestral import Ancestral
from tauleap.sampling.final import Final
from tauleap.sampling.first_hitting import FirstHitting
from tauleap.sampling.grid import check_grid, geometric_grid, noise_grid, uniform_grid
from tauleap.sampling.planned import Planned
from tauleap.sampling.sampler import Sampler
from tauleap.sampling.tuning import TimeTuning, TunedNumbers, Tuning, UnmaskingTuning

END = 1e-3
"""The last time of a grid. The final step draws the sites independently, so little noise may be left there."""
FEW_STEPS = 32
"""The largest number of steps that counts as few when the grid is selected. The best grid at 16 evaluations is not the
best at 64 (docs/samplers.md has the table); 32 is between the two on a logarithmic scale."""


@dataclass(frozen=True)
class SamplingPlan:
    """Hold the sampler, the times and the final step of a request, as :func:`choose_sampling` selected them.

    >>> from tauleap.noise import Absorbing, LogLinear
    >>> print(choose_sampling(Absorbing(4, LogLinear()), 9))
    FirstHitting() from t = 1 to 0, at most 9 evaluations: exact for absorbing noise, 9 sites are no more than 100 steps
    """

    sampler: Sampler
    """The sampler."""
    grid: tuple[float, ...]
    """The times, from the first to the last."""
    grid_name: str
    """"uniform", "geometric", "noise", "tuned", "given", or "exact" where the sampler needs the two ends alone."""
    final: Final
    """The treatment of the noise left at the last time, as :func:`tauleap.sample` takes it."""
    evaluations: int | None
    """The largest number of network evaluations per sample; None where the sampler decides it."""
    reason: str
    """Why this was selected."""
    error: float | None = None
    """The error that the tuning predicts, in nats per row. Default: None, without tuning."""

    def as_json(self) -> dict[str, Any]:
        """Return the selection for scripts."""
        return {
            "sampler": repr(self.sampler),
            "grid": self.grid_name,
            "steps": len(self.grid) - 1,
            "start": self.grid[0],
            "end": self.grid[-1],
            "final": self.final,
            "evaluations": self.evaluations,
            "reason": self.reason,
            "error": self.error,
        }

    def __str__(self) -> str:
        steps = "" if self.grid_name == "exact" else f" in {len(self.grid) - 1} steps, {self.grid_name} grid"
        cost = "" if self.evaluations is None else f", at most {self.evaluations} evaluations"
        return f"{self.sampler!r} from t = {self.grid[0]:g} to {self.grid[-1]:g}{steps}{cost}: {self.reason}"


def choose_sampling(
    process: ForwardProcess,
    sites: int,
    *,
    steps: int | None = None,
    sampler: Sampler | None = None,
    grid: Iterable[float] | Tensor | None = None,
    tol: float | None = None,
    tuning: Tuning | None = None,
) -> SamplingPlan:
    """Return the sampler, the grid and the final step for a process.

    Absorbing noise with no more sites than steps gets ``FirstHitting``, which is exact for the model's chain and has
    one evaluation per site. Otherwise a tuned model gets the steps with the smallest predicted error: for absorbing
    noise ``Planned`` with the best numbers of sites, for other noise ancestral steps at the best times, down to 0.

    Everything else gets ancestral steps, one evaluation each, from t = 1 to 0.001. For absorbing noise, up to 32 steps
    are on ``uniform_grid`` and more are on ``noise_grid``. For other noise, up to 32 steps are on ``geometric_grid``
    and more are on ``uniform_grid``.

    Args:
        process: The noise of the model.
        sites: How many sites of a sample are drawn; those that are observed do not count.
        steps: The largest number of steps. Default: 100, or as many as ``tol`` needs.
        sampler: A sampler to use instead. Default: None, the selected one.
        grid: Decreasing times to use instead of ``steps``. Default: None.
        tol: The largest predicted error, in nats per row summed over the steps, > 0, instead of ``steps``. It needs
            ``tuning``. Default: None.
        tuning: The result of ``tauleap.tune`` for the model. Default: None, not tuned.

    Returns:
        The plan: sampler, grid, final step and reason.

    Raises:
        ValueError: The sampler does not fit the process, the grid does not decrease, or ``tol`` is not positive, is
            combined with ``steps``, ``grid`` or another sampler, or has no tuning.

    >>> from tauleap.noise import Absorbing, LogLinear
    >>> choose_sampling(Absorbing(5, LogLinear()), sites=16).sampler
    FirstHitting()
    """
    if tol is not None:
        _check_tol(tol, steps, sampler, grid, tuning)
    steps = SAMPLING_STEPS if steps is None else _check.integer("steps", steps, least=1)
    if sampler is not None:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"sampler must be a Sampler such as Ancestral(), got {sampler!r}")
        sampler.check(process)
    absorbing = process.mask is not None
    # A tolerance sets no number of steps: then FirstHitting is selected only if no site is drawn.
    has_step_per_site = absorbing and sites <= (0 if tol is not None else steps)
    if grid is None and (isinstance(sampler, FirstHitting) or (sampler is None and has_step_per_site)):
        count = f"{sites} sites are no more than {steps} steps"
        reason = f"exact for absorbing noise, {count}" if sampler is None else "as given, exact for absorbing noise"
        return SamplingPlan(FirstHitting(), (1.0, 0.0), "exact", "none", sites, reason)
    if grid is None and tuning is not None and sites > 0:
        tuned = _tuned(tuning, sites, steps, tol, sampler)
        if tuned is not None:
            return tuned
    if grid is not None:
        times, name = check_grid(grid), "given"
    elif absorbing and steps > FEW_STEPS:
        times, name = noise_grid(process.schedule, steps, end=END).tolist(), "noise"
    elif absorbing or steps > FEW_STEPS:
        times, name = uniform_grid(steps, end=END).tolist(), "uniform"
    else:
        times, name = geometric_grid(steps, end=END).tolist(), "geometric"
    reason = "as given" if sampler is not None else "by the measurements in docs/samplers.md"
    sampler = Ancestral() if sampler is None else sampler
    evaluations = len(times) if isinstance(sampler, Ancestral) else None
    final: Final = "none" if times[-1] == 0 else "sample"  # at time 0 no noise is left
    return SamplingPlan(sampler, tuple(times), name, final, evaluations, reason)


def _tuned(tuning: Tuning, sites: int, steps: int, tol: float | None, sampler: Sampler | None) -> SamplingPlan | None:
    """Return the plan of a tuned model; None if the tuning did not measure the error of the given sampler."""
    if isinstance(tuning, UnmaskingTuning) and sampler is None:
        number = min(steps, sites) if tol is None else tuning.steps(tol, sites)
        planned = Planned(numbers=TunedNumbers(tuning, number if tol is None else None, tol))
        sampler_and_times: tuple[Sampler, tuple[float, ...]] = planned, tuple(uniform_grid(number, end=0.0).tolist())
    elif isinstance(tuning, TimeTuning) and (sampler is None or _is_plain(sampler)):
        number = steps if tol is None else tuning.steps(tol)
        sampler_and_times = Ancestral(), tuning.grid(number)
    else:
        return None
    error = tuning.error(number, sites)
    reason = f"predicted error {error:.3g} nats per row, as tuned"
    return SamplingPlan(*sampler_and_times, "tuned", "none", number, reason, error)


def _is_plain(sampler: Sampler) -> bool:
    return isinstance(sampler, Ancestral) and sampler.look_ahead == 0


def _check_tol(tol: float, steps: int | None, sampler: Sampler | None, grid: object, tuning: Tuning | None) -> None:
    _check.positive("tol", tol)
    for name, value in (("steps", steps), ("grid", grid)):
        if value is not None:
            raise ValueError(f"tol decides the steps, so it excludes {name}: write only one of them")
    if tuning is None:
        raise ValueError(
            "tol needs a tuned model, which predicts the error of its steps: write tauleap.tune(model, rows) with "
            "held-out rows, or run `tauleap tune MODEL DATA`"
        )
    if sampler is not None and not (_is_plain(sampler) and isinstance(tuning, TimeTuning)):
        raise ValueError(f"tol is for the sampler that was tuned, got {sampler!r}: leave sampler out")
