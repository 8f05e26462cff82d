"""x0: where data comes from. One file per source, each giving int64 states and saying their number and shape."""

from tauleap.data.arrays import Dataset
from tauleap.data.cifar import cifar10
from tauleap.data.digits import digits
from tauleap.data.form import Form, Opened, form_from
from tauleap.data.idx import read_idx
from tauleap.data.labelled import images_npz
from tauleap.data.mnist import mnist
from tauleap.data.open import open_data
from tauleap.data.tau import tau_pmf, tau_points

__all__ = [
    "Dataset",
    "Form",
    "Opened",
    "cifar10",
    "digits",
    "form_from",
    "images_npz",
    "mnist",
    "open_data",
    "read_idx",
    "tau_pmf",
    "tau_points",
]
