"""Sources of training data x0. Each source returns rows of integer states, their number of states and their shape."""

from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData, format_from_config
from tauleap.data.image.cifar import cifar10
from tauleap.data.image.digits import digits
from tauleap.data.image.idx import read_idx
from tauleap.data.image.mnist import mnist
from tauleap.data.image.npz import images_npz
from tauleap.data.open import open_data
from tauleap.data.tau import tau_pmf, tau_points

__all__ = [
    "Dataset",
    "Format",
    "LoadedData",
    "cifar10",
    "digits",
    "format_from_config",
    "images_npz",
    "mnist",
    "open_data",
    "read_idx",
    "tau_pmf",
    "tau_points",
]
