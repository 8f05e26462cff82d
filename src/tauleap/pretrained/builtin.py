"""Shipped models, which are part of the package: ``tauleap.load("toy")``, ``tauleap sample toy``."""

from __future__ import annotations

import os
from pathlib import Path

from tauleap import _shipped
from tauleap.pretrained.download import download, is_repository


def builtin_models() -> list[str]:
    """Return the names of the shipped models.

    >>> builtin_models()
    ['mnist-small', 'music-small', 'toy']
    """
    return list(_shipped.NAMES)


def locate(folder: str | os.PathLike[str]) -> Path:
    """Return the folder of a model: a path, else a shipped model, else a repository of the hub.

    Args:
        folder: A path, the name of a shipped model, or the name "owner/name" of a repository.
    """
    path = Path(folder)
    if os.path.lexists(path):
        return path
    if str(folder) in builtin_models():
        return _shipped.MODELS / path
    if isinstance(folder, str) and is_repository(folder):
        return download(folder)
    return path
