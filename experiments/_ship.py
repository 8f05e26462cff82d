"""Add a trained model to the package."""

from __future__ import annotations

from pathlib import Path

from tauleap import pretrained
from tauleap.model import Model

MAX_BYTES = 6_000_000


def ship(model: Model, name: str, card: str) -> None:
    """Write a model and its card to the package, with 16-bit weights if 32 bits would be too large."""
    folder = Path(pretrained.__file__).parent / "models" / name
    model.save(folder, compact=4 * sum(p.numel() for p in model.denoiser.parameters()) > 0.95 * MAX_BYTES)
    (folder / "README.md").write_text(card, encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MAX_BYTES:
        raise SystemExit(f"{folder} has {size:,} bytes, more than {MAX_BYTES:,}: ship a smaller model")
    print(f"written: {folder}, {size:,} bytes")
