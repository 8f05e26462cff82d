"""Contract suites: what a process, denoiser, objective or sampler must satisfy, as tests to subclass.

    class TestMine(ProcessContract):
        def make(self):
            return Mine(5, Constant(2.0))

They need the extra ``tauleap[test]``: pytest, hypothesis, scipy and mpmath. Nothing else in the package imports them.
"""

try:
    import hypothesis as _hypothesis  # noqa: F401
    import mpmath as _mpmath  # noqa: F401
    import pytest
    import scipy as _scipy  # noqa: F401
except ImportError as error:
    raise ImportError(f"{error}: the contract suites need more packages, write pip install 'tauleap[test]'") from error

# Before they are imported, so that a failing assert in them says what it compared.
_PARTS = ("kernel", "rates", "module", "denoiser", "laws", "logits", "reverse", "objective", "paths", "sampler")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from tauleap.testing.denoiser import DenoiserContract, GivenLogits  # noqa: E402
from tauleap.testing.examples import PROCESSES, Example  # noqa: E402
from tauleap.testing.objective import ObjectiveContract  # noqa: E402
from tauleap.testing.process import ProcessContract  # noqa: E402
from tauleap.testing.reverse import ReverseContract  # noqa: E402
from tauleap.testing.sampler import SamplerContract  # noqa: E402

__all__ = [
    "PROCESSES",
    "DenoiserContract",
    "Example",
    "GivenLogits",
    "ObjectiveContract",
    "ProcessContract",
    "ReverseContract",
    "SamplerContract",
]
