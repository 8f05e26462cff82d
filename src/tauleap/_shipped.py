"""Where the models of the package are, for whoever must not wait for torch."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parent / "pretrained" / "models"


def names() -> list[str]:
    """Of the folders that hold a model."""
    return sorted(folder.name for folder in MODELS.iterdir() if folder.is_dir() and (folder / "config.json").is_file())
