"""x0: where data comes from. One file per source, each giving int64 states and saying their number and shape."""

from tauleap.data.arrays import Dataset
from tauleap.data.digits import digits
from tauleap.data.tau import tau_pmf, tau_points

__all__ = ["Dataset", "digits", "tau_pmf", "tau_points"]
