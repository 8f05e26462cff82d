"""The contract of a forward process."""

from __future__ import annotations

from tauleap.testing.kernel import KernelContract
from tauleap.testing.module import ModuleContract
from tauleap.testing.rates import DrawsContract, RatesContract


class ProcessContract(KernelContract, RatesContract, DrawsContract, ModuleContract):
    """Test the contract of a forward process, in a subclass.

    Set ``reversible = True`` to test detailed balance, ``shape = (3,)`` where the process fixes the shape of a
    sample, and ``prior_is_stationary = False`` where the reverse chain starts from another law. ``ReverseContract``
    tests the reversal of the same process.

    >>> from tauleap.noise import Constant, Uniform
    >>> class TestMine(ProcessContract):
    ...     reversible = True
    ...     def make(self):
    ...         return Uniform(5, Constant(2.0))
    >>> TestMine().test_detailed_balance_as_claimed()  # pytest runs all tests of the class
    """
