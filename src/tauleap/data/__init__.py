"""x0: where data comes from. One file per source, each giving int64 states and saying their number and shape."""

from tauleap.data.tau import tau_pmf, tau_points

__all__ = ["tau_pmf", "tau_points"]
