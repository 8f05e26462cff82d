"""Recipes of experiments: functions that return a :class:`tauleap.training.Recipe`."""

from tauleap.recipes.digits import digits
from tauleap.recipes.images import cifar10, mnist
from tauleap.recipes.music import music, music_paper
from tauleap.recipes.toy import toy, toy_paper

__all__ = ["cifar10", "digits", "mnist", "music", "music_paper", "toy", "toy_paper"]
