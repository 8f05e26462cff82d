"""Models that come with the package: ``tauleap.load("toy")``, ``tauleap sample toy``."""

from __future__ import annotations

import os
from pathlib import Path

from tauleap import _shipped


def builtin_models() -> list[str]:
    """Their names.

    >>> builtin_models()
    ['mnist-small', 'music-small', 'toy']
    """
    return _shipped.names()


def locate(folder: str | os.PathLike[str]) -> Path:
    """The folder itself; where there is none, that of the model with this name among those of the package."""
    path = Path(folder)
    if not path.exists() and str(folder) in builtin_models():
        return _shipped.MODELS / path
    return path
