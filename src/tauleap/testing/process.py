"""The contract of a forward process."""

from __future__ import annotations

from tauleap.testing.kernel import KernelContract
from tauleap.testing.module import ModuleContract
from tauleap.testing.rates import DrawsContract, RatesContract


class ProcessContract(KernelContract, RatesContract, DrawsContract, ModuleContract):
    """What every forward process must satisfy. A test of your own process is

        class TestMine(ProcessContract):
            def make(self):
                return Mine(5, Constant(2.0))

    Say ``reversible = True`` to have detailed balance tested, ``shape = (3,)`` where the process fixes the shape of a
    sample, and ``prior_is_stationary = False`` where the reverse chain starts from another law. ``ReverseContract``
    tests the reversal of the same process.
    """
