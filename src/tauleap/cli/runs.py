"""What the commands share: opening a run, naming samplers, saying things to people and to scripts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Doc

from tauleap import _shipped
from tauleap._printable import printable
from tauleap.cli.signals import importing

if TYPE_CHECKING:
    from torch import Tensor

    from tauleap.data import Dataset, Form
    from tauleap.pretrained import Model
    from tauleap.sampling import Sampler

SamplerName = Literal[
    "ancestral", "tau-leaping", "trapezoidal", "first-hitting", "first-jump", "next-reaction", "uniformization"
]
RunFolder = Annotated[
    Path,
    Doc(
        "Folder of a run or a saved model, or the name of one that comes with the package: "
        f"{', '.join(_shipped.names())}."
    ),
]
ImageFormat = Literal["png", "npy"]
MOST_CELLS = 2**24
"""Sites in one file of samples."""
_MOST_ROWS = 1024
_ENTRY_BYTES = 64
"""What sampling takes for each entry (rows x sites x states): 17 to 76 bytes were measured, by sampler and network.

Leaps so long that a site jumps dozens of times take more, for each jump is drawn.
"""


def check_run(run: Path) -> None:
    """Raise ValueError where ``run`` is neither a folder nor the name of a model of the package; torch is not needed.

    Args:
        run: the path or name, as it was typed.
    """
    if not run.is_dir() and (run.exists() or str(run) not in _shipped.names()):
        raise ValueError(
            f"{run} is not a folder of a run: write the folder that `tauleap train` has made, or one of the models of "
            f"the package: {', '.join(_shipped.names())}"
        )


def check_exists(path: Path) -> None:
    """Raise ValueError where there is nothing to read at ``path``.

    Args:
        path: a file or folder, as it was typed.
    """
    if not path.exists():
        raise ValueError(f"{path} is not a file: nothing of this name exists")


def open_run(run: Path) -> tuple[Model, Form]:
    """The model of a run, a checkpoint or a saved folder, and the form in which its samples are written."""
    check_run(run)
    with importing():
        from tauleap.data.array_file import ArrayForm
        from tauleap.pretrained import load

    model = load(run)
    if model.shape is None:
        raise ValueError(
            f"{run} holds a model that does not know the shape of its data: give it one, and save it again"
        )
    form = model.form
    if form is None:
        states = model.process.data_states.reshape(-1, model.num_states).any(0)
        ordered = bool(model.process.ordinal)
        form = ArrayForm(model.shape, 0, int(states.nonzero().max()) + 1, None, ordered, "int64")
    return model, form


def fingerprint(model: Model) -> str:
    """Tells models apart: a digest of the weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.reverse.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=_bytes()).numpy().tobytes())
    return digest.hexdigest()


def sampler_of(name: SamplerName) -> Sampler:
    """The sampler with its usual settings."""
    from tauleap import sampling

    kinds = {
        "ancestral": sampling.Ancestral,
        "tau-leaping": sampling.TauLeaping,
        "trapezoidal": sampling.Trapezoidal,
        "first-hitting": sampling.FirstHitting,
        "first-jump": sampling.FirstJump,
        "next-reaction": sampling.NextReaction,
        "uniformization": sampling.Uniformization,
    }
    return kinds[name]()


def rows_at_once(model: Model, asked: int | None, *, memory: float = 1.0) -> int:
    """How many rows are made at a time: what was asked for, or what fits into ``memory`` gigabytes, 1024 at most."""
    if asked is not None:
        return at_least("--batch-size", asked, 1)
    if not 0 < memory < math.inf:
        raise ValueError(f"--memory must be a finite number of gigabytes > 0, got {memory}")
    entries = math.prod(model.shape or (1,)) * model.num_states
    return max(1, min(_MOST_ROWS, int(memory * 2**30) // (_ENTRY_BYTES * entries)))


def at_least(option: str, value: int, least: int) -> int:
    """A number that is not too small."""
    if value < least:
        raise ValueError(f"{option} must be >= {least}, got {value}")
    return value


def warm(temperature: float) -> float:
    """A temperature that logits can be divided by."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"--temperature must be a finite number > 0, got {temperature}")
    return temperature


def seeded(seed: int) -> int:
    """A seed that a generator takes."""
    if not 0 <= seed < 2**63:
        raise ValueError(f"--seed must be between 0 and 2**63 - 1, got {seed}")
    return seed


def part_seed(seed: int, first: int) -> int:
    """A seed of its own for the rows that begin with number ``first``, so that any part can be made by itself."""
    return int.from_bytes(hashlib.sha256(f"{seed} {first}".encode()).digest()[:7], "big")


def rows_of(data: Dataset, index: Tensor) -> Dataset:
    """The rows at these positions."""
    return dataclasses.replace(
        data,
        x=data.x[index],
        missing=None if data.missing is None else data.missing[index],
        condition=None if data.condition is None else data.condition[index],
    )


def tell(as_json: bool, facts: dict[str, Any], lines: list[str]) -> None:
    """Prints the facts for a script, or the lines for people."""
    print(json.dumps(facts, allow_nan=False) if as_json else printable("\n".join(lines), lines=True))


def _bytes() -> Any:
    import torch

    return torch.uint8
