"""The model of a run, as the commands load it."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import torch

from tauleap.cli.options import at_least
from tauleap.data import Format
from tauleap.data.array.format import ArrayFormat
from tauleap.model import Model
from tauleap.pretrained import UnknownClassError, load


def load_model(run: Path, device: str) -> tuple[Model, Format]:
    """Return the model of a run, a checkpoint or a saved folder, and the format in which its samples are written.

    Args:
        run: The folder, or the name of a model of the package.
        device: The value of ``--device``.
    """
    try:
        model = load(run, device=device)
    except UnknownClassError as error:
        raise ValueError(
            f"{run} uses the classes {', '.join(error.names)}, which the command line cannot import: in Python write "
            f"{error.call}, and use its methods sample, complete and bits_per_dim"
        ) from error
    if model.shape is None:
        raise ValueError(
            f"the model in {run} has no shape: load it in Python, write Model(..., shape=...), and save it again"
        )
    form = model.form
    if form is None:
        process = model.reverse.process
        states = process.data_states.reshape(-1, process.num_states).any(0)
        ordered = bool(process.ordinal)
        form = ArrayFormat(model.shape, 0, int(states.nonzero().max()) + 1, None, ordered, "int64")
    return model, form


def fingerprint(model: Model) -> str:
    """Return a digest of the weights, which distinguishes models.

    Args:
        model: The model.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.reverse.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(dtype=torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def tuning_digest(model: Model) -> str | None:
    """Return a digest of the model's tuning, which decides the steps; None if it has none.

    Args:
        model: The model.
    """
    tuning = model.tuning
    return None if tuning is None else hashlib.sha256(json.dumps(tuning.config()).encode()).hexdigest()


def rows_at_once(model: Model, given: int | None, *, memory: float | None = None, evaluations: int = 1) -> int:
    """Return the number of rows per batch of sampling.

    Args:
        model: The model, on its device.
        given: The value of ``--batch-size``; None for a size that fits into memory.
        memory: Gigabytes per batch, > 0. Default: 1 on a CPU, a quarter of an accelerator's memory.
        evaluations: Network evaluations per row that are batched together. Default: 1.
    """
    if given is not None:
        return at_least("--batch-size", given, 1)
    if memory is not None and not 0 < memory < math.inf:
        raise ValueError(f"--memory must be a finite number of gigabytes > 0, got {memory}")
    return model.default_batch_size(evaluations=evaluations, memory=None if memory is None else memory * 2**30)
