"""The shipped models, for code that must not import torch."""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parent / "pretrained" / "models"
"""Their folder."""
NAMES = tuple(sorted(path.parent.name for path in MODELS.glob("*/config.json")))
"""Their names."""
