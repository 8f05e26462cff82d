"""Shared by the scripts of this folder: the model, results that survive a stop, and the page."""

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

__all__ = ["END", "FIGURES", "Kept", "grid_within", "reverse_of", "table", "write"]
END = 0.01


class Kept:
    """Results by name in a JSON file: what is there is not worked out again. A file is about one model."""

    def __init__(self, name: str, model: str | None = None) -> None:
        self.path = HERE / "results" / name
        self.found: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        if model is not None:
            weights = fingerprint(load(model))
            if self.get("weights", lambda: weights) != weights:
                raise SystemExit(f"{self.path} has the results of other weights than those of {model}: move it away")

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.found:
            self.found[name] = make()
            with atomic_write(self.path) as file:
                file.write(json.dumps(self.found, indent=1, sort_keys=True).encode() + b"\n")
            print(name, json.dumps(self.found[name])[:100], flush=True)
        return self.found[name]


def reverse_of(model: str | None) -> ReverseProcess:
    """Of a model by its folder or name, in float64; of the exact denoiser if None."""
    return exact_reverse() if model is None else load(model).reverse.double()
