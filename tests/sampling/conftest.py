"""Fixtures of the tests of the samplers."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Shapes and types are not checked at calls, as in a user's program: what is seen is the package's own."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20261116)
