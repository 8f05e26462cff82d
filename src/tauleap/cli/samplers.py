"""The samplers by their names on the command line, and the plan of a request: sampler, grid and final step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Doc

if TYPE_CHECKING:
    from tauleap.model import Model
    from tauleap.sampling import Sampler, SamplingPlan

SamplerName = Literal[
    "ancestral",
    "tau-leaping",
    "trapezoidal",
    "extrapolated",
    "first-jump",
    "first-hitting",
    "planned",
    "next-reaction",
    "uniformization",
]
SamplerChoice = Annotated[
    SamplerName | None, Doc("Sampling method. Default: selected for the model and --steps, and printed.")
]
_OPTIONS: dict[str, tuple[str, type]] = {
    "ancestral": ("look_ahead", float),
    "tau-leaping": ("multiple_jumps", str),
    "planned": ("order", str),
    "trapezoidal": ("theta", float),
    "next-reaction": ("step", float),
}
"""The parameter of each sampler that has one, by its name in Python, and its type."""


def make_sampler(
    name: SamplerName | None, option: str | None, correctors: int = 0, scale: float = 1.0, start: float = 1.0
) -> Sampler | None:
    """Return a sampler; None for no name, which means the model's own selection.

    >>> make_sampler("ancestral", "look_ahead=0.5")
    Ancestral(look_ahead=0.5)

    Args:
        name: The value of ``--sampler``.
        option: The value of ``--sampler-option``, such as "look_ahead=0.5".
        correctors: Corrector steps after each step. Default: 0.
        scale: The length of a corrector step, in steps of the sampler. Default: 1.
        start: The time below which correctors run. Default: 1.

    Raises:
        ValueError: The sampler does not have this option, or the value is invalid.
    """
    check_option(name, option)
    if name is None:
        return None
    from tauleap import sampling

    kinds = {
        "ancestral": sampling.Ancestral,
        "tau-leaping": sampling.TauLeaping,
        "trapezoidal": sampling.Trapezoidal,
        "extrapolated": sampling.Extrapolated,
        "first-jump": sampling.FirstJump,
        "first-hitting": sampling.FirstHitting,
        "planned": sampling.Planned,
        "next-reaction": sampling.NextReaction,
        "uniformization": sampling.Uniformization,
    }
    if option is None:
        sampler = kinds[name]()
    else:
        parameter, kind = _OPTIONS[name]
        sampler = kinds[name](**{parameter: kind(option.partition("=")[2])})
    return sampler if correctors == 0 else sampling.WithCorrector(sampler, correctors, scale=scale, start=start)


def plan_of(
    model: Model,
    steps: int | None,
    name: SamplerName | None,
    option: str | None,
    correctors: int,
    scale: float = 1.0,
    start: float = 1.0,
    tol: float | None = None,
) -> tuple[SamplingPlan, SamplerName, str | None]:
    """Return the sampler, grid and final step of a request, and the name and option of the sampler for its record.

    Args:
        model: The model.
        steps: The largest number of steps; None for the default, or as many as ``tol`` needs.
        name: The sampler; None for the model's own selection.
        option: The sampler's option.
        correctors: Corrector steps after each step. They need steps, so first hitting is not selected with them.
        scale: The length of a corrector step, in steps of the sampler. Default: 1.
        start: The time below which correctors run. Default: 1.
        tol: The largest predicted error, in nats per row. Default: None, not limited.
    """
    with_steps: SamplerName | None = "ancestral" if name is None and correctors > 0 else name
    sampler = make_sampler(with_steps, option, correctors, scale, start)
    plan = model.sampling_plan(steps=steps, tol=tol, sampler=sampler)
    if name is not None:
        return plan, name, option
    if with_steps is None:
        return (plan, *names_of(plan.sampler))
    own = model.sampling_plan(steps=steps)
    has_steps = names_of(own.sampler)[0] == with_steps
    reason = own.reason if has_steps else f"correctors need steps, and {own.sampler!r} has none"
    return replace(plan, reason=reason), with_steps, None


def names_of(sampler: Sampler) -> tuple[SamplerName, str | None]:
    """Return the name of a sampler and its option; :func:`make_sampler` makes the same sampler from them.

    Args:
        sampler: A sampler that the model selected.

    Raises:
        TypeError: The sampler is not one that models select.
    """
    from tauleap import sampling

    if isinstance(sampler, sampling.FirstHitting):
        return "first-hitting", None
    if isinstance(sampler, sampling.Planned):
        return "planned", None
    if isinstance(sampler, sampling.Ancestral):
        return "ancestral", None if sampler.look_ahead == 0 else f"look_ahead={sampler.look_ahead!r}"
    raise TypeError(f"--sampler has no value for {sampler!r}, accepted are FirstHitting and Ancestral")


def check_option(name: SamplerName | None, option: str | None) -> None:
    """Raise ValueError unless ``option`` belongs to the sampler; torch is not needed.

    Args:
        name: The value of ``--sampler``.
        option: The value of ``--sampler-option``.
    """
    if option is None:
        return
    if name is None:
        raise ValueError("--sampler-option needs --sampler: write the name of the sampler, such as --sampler ancestral")
    if name not in _OPTIONS:
        have = ", ".join(f"{other} ({parameter})" for other, (parameter, _) in _OPTIONS.items())
        raise ValueError(
            f"--sampler {name} has no option, got {option!r}: leave it out, or use a sampler with an option: {have}"
        )
    parameter, kind = _OPTIONS[name]
    given, equals, value = option.partition("=")
    if given != parameter or not equals:
        raise ValueError(f"--sampler-option must be {parameter}=VALUE for --sampler {name}, got {option!r}")
    try:
        kind(value)
    except ValueError as error:
        raise ValueError(f"--sampler-option {parameter} must be a number, got {value!r}") from error
