"""What every test may rely on."""

import signal
from collections.abc import Iterator

import jaxtyping
import pytest
import torch

from tests import simulated

# A shell starts what it puts into the background with SIGINT ignored, and children inherit that: the tests of Ctrl-C
# would wait for a signal that is never handled.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Under nohup SIGHUP is ignored, and children inherit that too.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The device must be known before the first backward pass of the process: autograd counts the devices then.
simulated.register()


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Shapes and types are not checked at calls, as in a user's program: what is seen is the package's own."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def sim() -> Iterator[torch.device]:
    """A simulated accelerator with float64: see ``tests/simulated``."""
    yield from _simulated(float64=True)


@pytest.fixture
def sim32() -> Iterator[torch.device]:
    """A simulated accelerator without float64, as mps."""
    yield from _simulated(float64=False)


@pytest.fixture(params=["float64", "no float64"])
def each_sim(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """The test runs on a simulated accelerator with float64 and on one without."""
    yield from _simulated(float64=request.param == "float64")


def _simulated(float64: bool) -> Iterator[torch.device]:
    if not simulated.hook_exists():
        pytest.skip(f"PyTorch {torch.__version__} has no hook for backends written in Python")
    with simulated.active(float64=float64) as device:
        yield device
