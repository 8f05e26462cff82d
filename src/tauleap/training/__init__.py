"""Train models with Lightning Fabric, on one core or many machines; a killed run resumes from its checkpoint."""

from tauleap.training.augment import LabelDropout, flip_left_right
from tauleap.training.loop import Result, train
from tauleap.training.masking import RandomMasks
from tauleap.training.meter import NonFiniteError
from tauleap.training.ranks import is_first_rank
from tauleap.training.recipe import Batch, Recipe, Settings
from tauleap.training.run import Run

__all__ = [
    "Batch",
    "LabelDropout",
    "NonFiniteError",
    "RandomMasks",
    "Recipe",
    "Result",
    "Run",
    "Settings",
    "flip_left_right",
    "is_first_rank",
    "train",
]
