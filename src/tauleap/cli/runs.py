"""What the commands share: opening a run, naming samplers, saying things to people and to scripts."""

from __future__ import annotations

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

    from tauleap.data import Dataset, Format
    from tauleap.pretrained import Model

RunFolder = Annotated[
    Path,
    Doc(
        "Folder of a run or a saved model, or the name of one that comes with the package: "
        f"{', '.join(_shipped.names())}."
    ),
]
DeviceName = Annotated[str, Doc("Where to compute: cpu, cuda, cuda:1, mps, ...; auto is the accelerator, if any.")]
ImageFormat = Literal["png", "npy"]
MOST_CELLS = 2**24
"""Sites in one file of samples."""


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


def open_run(run: Path, device: str) -> tuple[Model, Format]:
    """Return the model of a run, a checkpoint or a saved folder, and the form in which its samples are written.

    Args:
        run: the folder, or the name of a model of the package.
        device: the value of ``--device``.
    """
    check_run(run)
    with importing():
        from tauleap.data.array.format import ArrayFormat
        from tauleap.pretrained import UnknownClassError, load

    try:
        model = load(run, device=device)
    except UnknownClassError as error:
        raise ValueError(
            f"{run} was saved with {', '.join(error.names)}, which the command line cannot import: in Python write "
            f"{error.call}; the model that it returns has the methods sample, complete and bits_per_dim"
        ) from error
    if model.shape is None:
        raise ValueError(
            f"{run} holds a model that does not know the shape of its data: give it one, and save it again"
        )
    form = model.form
    if form is None:
        states = model.process.data_states.reshape(-1, model.num_states).any(0)
        ordered = bool(model.process.ordinal)
        form = ArrayFormat(model.shape, 0, int(states.nonzero().max()) + 1, None, ordered, "int64")
    return model, form


def fingerprint(model: Model) -> str:
    """Tells models apart: a digest of the weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.reverse.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=_bytes()).numpy().tobytes())
    return digest.hexdigest()


def rows_at_once(model: Model, given: int | None, *, memory: float | None = None, passes: int = 1) -> int:
    """Return how many rows are made at a time.

    Args:
        model: the model, on its device.
        given: the value of ``--batch-size``, which decides if it is there.
        memory: gigabytes that a batch may take. Default: what its device allows.
        passes: how many network evaluations of each row are made together. Default: 1.
    """
    if given is not None:
        return at_least("--batch-size", given, 1)
    if memory is not None and not 0 < memory < math.inf:
        raise ValueError(f"--memory must be a finite number of gigabytes > 0, got {memory}")
    from tauleap import _batch

    entries = passes * math.prod(model.shape or (1,)) * model.num_states
    return _batch.batch_rows(model.device, entries, memory=None if memory is None else memory * 2**30)


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
    return data._take(index)


def tell(as_json: bool, facts: dict[str, Any], lines: list[str]) -> None:
    """Prints the facts for a script, or the lines for people."""
    print(json.dumps(facts, allow_nan=False) if as_json else printable("\n".join(lines), lines=True))


def _bytes() -> Any:
    import torch

    return torch.uint8
