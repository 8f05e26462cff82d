"""What is checked before a model is measured."""

from __future__ import annotations

from tauleap.reverse import ReverseProcess


def reverse_process(value: object, function: str) -> ReverseProcess:
    """Return a model that can be measured."""
    if not isinstance(value, ReverseProcess):
        raise TypeError(
            f"{function} takes a ReverseProcess, got {type(value).__name__}: write ReverseProcess(process, denoiser)"
        )
    return value
