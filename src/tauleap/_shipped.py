"""The folder of the shipped models, for code that must not import torch."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parent / "pretrained" / "models"


def names() -> list[str]:
    """Return the names of the shipped models."""
    return sorted(folder.name for folder in MODELS.iterdir() if folder.is_dir() and (folder / "config.json").is_file())
