"""The result of ``tauleap.tune``: predicted errors of sampling steps, and the steps that make them smallest."""

from __future__ import annotations

from collections.abc import Mapping

from tauleap.sampling.tuning.base import Tuning
from tauleap.sampling.tuning.times import TimeTuning
from tauleap.sampling.tuning.unmasking import TunedNumbers, UnmaskingTuning

__all__ = ["TimeTuning", "TunedNumbers", "Tuning", "UnmaskingTuning", "tuning_from_config"]

_KINDS = {cls.kind: cls for cls in (TimeTuning, UnmaskingTuning)}


def tuning_from_config(config: object) -> Tuning:
    """Return the tuning of a configuration.

    Args:
        config: The result of :meth:`Tuning.config`.

    Raises:
        ValueError: It is something else.

    >>> tuning_from_config(TimeTuning(8, None, (0.0, 1.0), ((0.5,),)).config()).grid(2)
    (1.0, 0.25, 0.0)
    """
    kind = config.get("kind") if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"a tuning must be a mapping whose kind is one of {', '.join(map(repr, _KINDS))}")
    return _KINDS[kind].from_config(config)
