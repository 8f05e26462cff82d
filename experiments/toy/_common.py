"""Shared by the scripts of this folder: the model, stored results, and the page."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tauleap._files import atomic_write
from tauleap.cli.model import fingerprint
from tauleap.pretrained import load
from tauleap.recipes.toy import exact_reverse
from tauleap.reverse import ReverseProcess

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "diagnostics")]

from _budget import grid_within  # noqa: E402
from _page import FIGURES, table, write  # noqa: E402

__all__ = ["END", "FIGURES", "StoredResults", "grid_within", "reverse_of", "table", "write"]
END = 0.01


class StoredResults:
    """Results by name in a JSON file, which are not computed again. A file belongs to one model."""

    def __init__(self, name: str, model: str | None = None) -> None:
        self.path = HERE / "results" / name
        self.values: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        if model is not None:
            weights = fingerprint(load(model))
            if self.get("weights", lambda: weights) != weights:
                raise SystemExit(f"{self.path} has results of other weights than those of {model}: rename or delete it")

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.values:
            self.values[name] = make()
            with atomic_write(self.path) as file:
                file.write(json.dumps(self.values, indent=1, sort_keys=True).encode() + b"\n")
            print(name, json.dumps(self.values[name])[:100], flush=True)
        return self.values[name]


def reverse_of(model: str | None) -> ReverseProcess:
    """Return the reverse process of a model in float64, or that of the exact denoiser for None."""
    return exact_reverse() if model is None else load(model).reverse.double()
