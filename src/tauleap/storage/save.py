"""Write a model as two files: ``config.json``, from which it is rebuilt, and ``model.safetensors``, its weights."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import safetensors.torch
import torch
from torch import Tensor, nn

from tauleap import _files
from tauleap._files import owned, safe_read
from tauleap._files.full_disk import explaining_full_disk
from tauleap._files.manifest import MANIFEST
from tauleap._version import __version__
from tauleap.data.format import Format
from tauleap.data.memory import Kind
from tauleap.denoise import Denoiser
from tauleap.network.arguments import unwrapped
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess
from tauleap.storage.config import describe_part

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
CHECKSUM = "config_sha256"
_NETWORK = "denoiser.network."


@runtime_checkable
class Saveable(Protocol):
    """Declare the parts of a model that are saved; :class:`tauleap.Model` has them."""

    reverse: ReverseProcess
    shape: tuple[int, ...] | None
    form: Format | None
    kind: Kind
    about: dict[str, Any]

    @property
    def process(self) -> ForwardProcess:
        """The forward process."""
        ...

    @property
    def denoiser(self) -> Denoiser:
        """The denoiser."""
        ...


def configuration(model: Saveable) -> dict[str, Any]:
    """Return the arguments from which a model is rebuilt, as JSON values.

    Args:
        model: The model.
    """
    return {
        "process": describe_part(model.process, "process"),
        "denoiser": describe_part(model.denoiser, "denoiser"),
        "shape": None if model.shape is None else list(model.shape),
    } | _meaning(model)


def _meaning(model: Saveable) -> dict[str, Any]:
    """Return the format of the data and the report of the model, if there are any."""
    out: dict[str, Any] = {}
    if model.form is not None:
        out["form"] = model.form.config()
    if model.kind != Kind():
        out["kind"] = json.loads(json.dumps(asdict(model.kind)))
    if model.about:
        out["about"] = json.loads(json.dumps(model.about, allow_nan=False))
    return out


def as_files(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, bytes]:
    """Return the names and contents of the model's files.

    Args:
        config: A result of :func:`configuration`; the checksums of the weights and of itself are added.
        weights: The state dict of the reverse process.
    """
    content = safetensors.torch.save(_separate(weights), metadata={"format": "pt"})
    head = {"format": FORMAT, "tauleap": __version__, "weights_sha256": hashlib.sha256(content).hexdigest()}
    return {WEIGHTS: content, CONFIG: config_bytes(head | dict(config))}


def with_checksum(config: Mapping[str, Any], field: str = CHECKSUM) -> dict[str, Any]:
    """Return the configuration with the SHA-256 of its own content, which detects any change.

    Args:
        config: JSON values; a checksum among them is replaced.
        field: The name of the checksum. Default: that of ``config.json``.

    >>> with_checksum({"format": 1})["config_sha256"][:8]
    '3f0a9925'
    """
    plain = {name: value for name, value in config.items() if name != field}
    # Sorted and without spaces, so that the checksum does not depend on the layout of the file.
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    head = {name: plain[name] for name in ("format", "tauleap", "weights_sha256") if name in plain}
    return head | {field: digest} | plain


def config_bytes(config: Mapping[str, Any]) -> bytes:
    """Return the content of ``config.json``, with its checksum.

    Args:
        config: A result of :func:`configuration`, with the checksum of the weights.

    Raises:
        ValueError: The file would be too large to be loaded again.
    """
    content = json.dumps(with_checksum(config), indent=2, allow_nan=False).encode() + b"\n"
    if len(content) > safe_read.JSON_BYTES:
        raise ValueError(
            f"{CONFIG} must have <= {safe_read.JSON_BYTES:,} bytes to be loaded again, got {len(content):,}: use fewer "
            "columns or categories"
        )
    return content


def save(model: Saveable, folder: str | os.PathLike[str], *, compact: bool = False) -> Path:
    """Write the files of a model and return the folder.

    Args:
        model: The model.
        folder: A new or empty folder, or one that holds a model, which is replaced.
        compact: Round the weights to 16 bits; they are loaded as float32. Default: false.

    Raises:
        ValueError: The folder holds other files, or the weights cannot be rounded.
    """
    folder = Path(folder)
    config, weights = configuration(model), _state_of(model)
    if compact:
        others = {str(p.dtype) for p in model.denoiser.parameters() if p.dtype != torch.float32}
        if others:
            raise ValueError(f"compact=True needs weights in float32, got {', '.join(others)}: leave compact out")
        config, weights = config | {"dtype": "float32"}, {name: _halved(name, w) for name, w in weights.items()}
    if folder.exists():
        owned.check_no_file(folder, "the model")
    files = as_files(config, weights)
    with explaining_full_disk(folder):
        _write(folder, files)
    return folder


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a model into a folder that is new, empty or of a model."""
    if folder.is_dir() and any(folder.iterdir()):
        if not _is_model(folder / CONFIG):
            raise ValueError(
                f"{folder} is not empty and does not hold a model of tauleap: write the name of a new folder"
            )
        if (folder / MANIFEST).exists():
            raise ValueError(
                f"{folder} is a checkpoint of a run, which is never overwritten: write the name of a new folder"
            )
        # Weights first: if writing stops between the two files, the checksum in the old configuration detects it.
        for name, content in files.items():
            with _files.atomic_write(folder / name) as file:
                file.write(content)
        return
    owned.remove_abandoned(folder)
    with _files.staged_dir(folder) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)


def _is_model(path: Path) -> bool:
    """Return whether a file is the configuration of a tauleap model: other libraries have files of this name."""
    try:
        config = safe_read.read_json(path, inside=path.parent)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"format", "weights_sha256", "process", "denoiser"} <= config.keys()


def has_right_checksum(config: dict[str, Any], field: str = CHECKSUM) -> bool:
    """Return whether the checksum of a configuration is correct, or absent, as in files of earlier versions.

    Args:
        config: The content of the file.
        field: The name of the checksum. Default: that of ``config.json``.
    """
    return field not in config or config[field] == with_checksum(config, field)[field]


def _halved(name: str, weight: Tensor) -> Tensor:
    """Return a weight of the network in float16 (eleven significant bits above 6e-5), other tensors unchanged."""
    if not name.startswith("denoiser.") or weight.dtype != torch.float32:
        return weight
    half = weight.to(torch.float16)
    if not bool(half.isfinite().all()):
        raise ValueError(f"{name} has values beyond 65504, the largest number of float16: leave compact out")
    return half


def _separate(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights on the CPU, contiguous, without shared memory, as the file format needs them."""
    out: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in weights.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in seen:
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        out[name] = own
    return out


def _state_of(model: Saveable) -> dict[str, Tensor]:
    """Return the weights by the names that they have without wrappers such as that of ``torch.compile``."""
    weights, network = model.reverse.state_dict(), getattr(model.denoiser, "network", None)
    if not isinstance(network, nn.Module) or unwrapped(network) is network:
        return weights
    outside = {name: weight for name, weight in weights.items() if not name.startswith(_NETWORK)}
    return outside | {f"{_NETWORK}{name}": weight for name, weight in unwrapped(network).state_dict().items()}
