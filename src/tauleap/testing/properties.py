"""What hypothesis draws for the contract suites."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

PROPERTY = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    # A method runs in each subclass of its suite. The check is there for the database, which derandomize leaves out.
    suppress_health_check=[HealthCheck.differing_executors],
)
"""The same modest number of examples in every run."""

TIMES = st.sampled_from([0.0, 1e-4, 1e-2, 1.0]) | st.floats(0.0, 1.0)
"""Any t at all, and the ends and the small ones for certain."""

POSITIVE_TIMES = st.sampled_from([1e-4, 1e-2, 1.0]) | st.floats(1e-4, 1.0)

SEEDS = st.integers(0, 2**32)
