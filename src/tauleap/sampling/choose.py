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
from tauleap.sampling.sampler import Sampler

END = 1e-3
"""The last time of a grid: the sites are drawn independently there, so little noise may be left."""
FEW_STEPS = 32
"""The grids with the smallest mean errors at 16 and at 64 evaluations differ (docs/samplers.md has the table); this is
between the two numbers on a logarithmic scale."""


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
    """"uniform", "geometric", "noise", "given", or "exact" where the sampler needs the two ends alone."""
    final: Final
    """The treatment of the noise left at the last time, as :func:`tauleap.sample` takes it."""
    evaluations: int | None
    """The largest number of network evaluations per sample; None where the sampler decides it."""
    reason: str
    """Why this was selected."""

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
        }

    def __str__(self) -> str:
        steps = "" if self.grid_name == "exact" else f" in {len(self.grid) - 1} steps, {self.grid_name} grid"
        work = "" if self.evaluations is None else f", at most {self.evaluations} evaluations"
        return f"{self.sampler!r} from t = {self.grid[0]:g} to {self.grid[-1]:g}{steps}{work}: {self.reason}"


def choose_sampling(
    process: ForwardProcess,
    sites: int,
    *,
    steps: int = SAMPLING_STEPS,
    sampler: Sampler | None = None,
    grid: Iterable[float] | Tensor | None = None,
) -> SamplingPlan:
    """Return the sampler, the grid and the final step for a process.

    Absorbing noise with no more sites than steps gets ``FirstHitting``, which is exact for the model's chain and has
    one evaluation per site. Everything else gets ancestral steps, one evaluation each, from t = 1 to 0.001: up to 32
    of them on the uniform grid for absorbing noise and on the geometric grid for other noise, more of them on
    ``noise_grid`` for absorbing noise and on the uniform grid for other noise.

    Args:
        process: The noise of the model.
        sites: How many sites of a sample are drawn; those that are observed do not count.
        steps: The largest number of steps. Default: 100.
        sampler: A sampler to use instead. Default: None, the selected one.
        grid: Decreasing times to use instead of ``steps``. Default: None.

    Returns:
        The plan: sampler, grid, final step and reason.

    Raises:
        ValueError: The sampler does not fit the process, or the grid does not decrease.

    >>> from tauleap.noise import Absorbing, LogLinear
    >>> choose_sampling(Absorbing(5, LogLinear()), sites=16).sampler
    FirstHitting()
    """
    steps = _check.integer("steps", steps, least=1)
    if sampler is not None:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"sampler must be a Sampler such as Ancestral(), got {sampler!r}")
        sampler.check(process)
    absorbing = process.mask is not None
    if grid is None and (isinstance(sampler, FirstHitting) or (sampler is None and absorbing and sites <= steps)):
        count = f"{sites} sites are no more than {steps} steps"
        reason = f"exact for absorbing noise, {count}" if sampler is None else "as given, exact for absorbing noise"
        return SamplingPlan(FirstHitting(), (1.0, 0.0), "exact", "none", sites, reason)
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
