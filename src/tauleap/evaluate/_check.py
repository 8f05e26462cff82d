"""Checks of the arguments of an evaluation."""

from __future__ import annotations

from tauleap.reverse import ReverseProcess


def reverse_process(value: object, function: str) -> ReverseProcess:
    """Return a model that can be measured."""
    if not isinstance(value, ReverseProcess):
        raise TypeError(
            f"{function} takes a ReverseProcess, got {type(value).__name__}: write ReverseProcess(process, denoiser)"
        )
    return value
