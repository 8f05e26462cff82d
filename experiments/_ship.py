"""Puts a trained model into the package."""

from __future__ import annotations

from pathlib import Path

from tauleap import pretrained
from tauleap.model import Model

MOST_BYTES = 6_000_000


def ship(model: Model, name: str, card: str) -> None:
    """Writes the model, with its card, to the package's models, in 16 bits if it would be too large otherwise."""
    folder = Path(pretrained.__file__).parent / "models" / name
    model.save(folder, compact=4 * sum(p.numel() for p in model.denoiser.parameters()) > 0.95 * MOST_BYTES)
    (folder / "README.md").write_text(card, encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MOST_BYTES:
        raise SystemExit(f"{folder} has {size:,} bytes, more than {MOST_BYTES:,}")
    print(f"written: {folder}, {size:,} bytes")
