"""x0: where data comes from. One file per source, each giving int64 states and saying their number and shape."""

from tauleap.data.arrays import Dataset
from tauleap.data.digits import digits
from tauleap.data.form import Form, Opened, form_from
from tauleap.data.open import open_data
from tauleap.data.tau import tau_pmf, tau_points

__all__ = ["Dataset", "Form", "Opened", "digits", "form_from", "open_data", "tau_pmf", "tau_points"]
