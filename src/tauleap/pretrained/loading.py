"""Load a model from a folder: check its files, rebuild it from the configuration, and set its weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tauleap import _device, _files
from tauleap._files import safe_read
from tauleap._files.manifest import MANIFEST, Manifest
from tauleap.data.format import format_from_config
from tauleap.data.memory import Kind
from tauleap.data.table.format import TableFormat
from tauleap.denoise import Denoiser
from tauleap.model import Model
from tauleap.network.arguments import unwrapped
from tauleap.noise import ForwardProcess
from tauleap.pretrained.builtin import builtin_models, locate
from tauleap.pretrained.checks import check_denoiser, check_process, check_shape
from tauleap.pretrained.runs import latest_checkpoint, read_report
from tauleap.storage.config import (
    IN_DENOISER,
    IN_PROCESS,
    UnknownClassError,
    build,
    mark_not_rebuildable,
    not_rebuildable,
    own_classes,
    unknown_classes,
)
from tauleap.storage.save import CHECKSUM, CONFIG, FORMAT, WEIGHTS, config_bytes, has_right_checksum
from tauleap.storage.weights import Declared, read_header, read_weights

_REQUIRED = {"weights_sha256", "process", "denoiser", "shape"}
_FIELDS = _REQUIRED | {"format", "tauleap", CHECKSUM, "form", "kind", "about", "dtype"}


def rewrite_config(folder: str | os.PathLike[str]) -> None:
    """Add a checksum to a configuration without one, after loading the model once.

    Args:
        folder: The folder of the model.
    """
    load(folder, device=_device.CPU)
    path = Path(folder) / CONFIG
    config = safe_read.read_json(path, inside=Path(folder))
    with _files.atomic_write(path) as file:
        file.write(config_bytes(config))


@_device.cpu_by_default
def load(
    folder: str | os.PathLike[str],
    *,
    classes: Iterable[type] = (),
    network: nn.Module | None = None,
    process: ForwardProcess | None = None,
    device: torch.device | str = "auto",
) -> Model:
    """Return a saved model in evaluation mode; from a training run, with its averaged weights.

    >>> load("toy").shape
    (2,)

    Args:
        folder: The folder of a saved model, a checkpoint, or a run, whose latest checkpoint is loaded; or the name of a
            shipped model, such as "toy"; or a repository "owner/name" of the Hugging Face hub
            (``pip install 'tauleap[hub]'``).
        classes: Your own classes in the model, such as a process and a network. They are constructed with the arguments
            in the file, so list only classes that are safe with any arguments. Default: none.
        network: A network or denoiser that receives the weights, if the file cannot rebuild it. Default: None, the one
            that the file describes.
        process: The process, if the file cannot rebuild it. Default: None, the one that the file describes.
        device: The device of the model, such as "cuda:1". Default: "auto", the accelerator of this machine (cuda, mps,
            xpu, ...) if there is one, else the CPU.

    Returns:
        The model.

    Raises:
        FileNotFoundError: The folder holds no model, or the hub cannot be reached.
        UnknownClassError: The model has classes of its author, or parts that its file cannot rebuild; the message shows
            the call that loads it.
        TypeError: ``network`` is not a module, or ``process`` not a process.
        ValueError: A file is damaged, or this machine does not have the device.
    """
    device = _device.resolve(device)
    name_in_errors, own = folder, own_classes(classes)
    for name, value, kind in (("network", network, nn.Module), ("process", process, ForwardProcess)):
        if value is not None and not isinstance(value, kind):
            what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
            raise TypeError(f"{name} must be an instance of {kind.__name__}, got {what}: write {name}=MyClass(...)")
    folder = run = locate(folder)
    if not (folder / CONFIG).exists():
        folder = latest_checkpoint(folder) or folder
    if not (folder / CONFIG).exists() or not (folder / WEIGHTS).exists():
        raise FileNotFoundError(
            f"{folder} holds no model, which has {CONFIG} and {WEIGHTS}: write the folder of a model, or a shipped "
            f"model: {', '.join(builtin_models())}"
        )
    with safe_read.explaining(folder / CONFIG, safe_read.MODEL_REMEDY):
        model = _load(folder, run, name_in_errors, own, network, process)
    return model.to(device)


def _load(
    folder: Path,
    run: Path,
    name: str | os.PathLike[str],
    own: Mapping[str, type],
    network: nn.Module | None,
    process: ForwardProcess | None,
) -> Model:
    """Load the model in ``folder``, whose files may be links to others in ``run``; errors call it ``name``."""
    config = _read_config(folder, run)
    declared = read_header(folder / WEIGHTS, inside=run)
    meaning, dtype = _read_meaning(config), _dtype_of(config, declared)
    missing = _insert(config, network, process)
    unknown = list(unknown_classes([config["process"], config["denoiser"]], own))
    if unknown or missing:
        raise UnknownClassError(unknown, name, missing)
    check_process(config["process"], config["denoiser"])
    check_shape(config["shape"], config["denoiser"])
    try:
        check_denoiser(config["denoiser"], declared, own)
    except ValueError as error:
        if network is None:
            raise
        remedy = "construct the network with the same arguments as for training"
        raise safe_read.FileError(str(name), f"does not fit the given network: {error}", remedy) from error
    weights = read_weights(folder / WEIGHTS, inside=run, sha256=config["weights_sha256"])
    process = build(config["process"], weights, IN_PROCESS | dict(own))
    denoiser = build(config["denoiser"], weights, IN_DENOISER | dict(own))
    if not isinstance(process, ForwardProcess) or not isinstance(denoiser, Denoiser):
        raise ValueError(f"it must describe a process and a denoiser, got {process!r} and {denoiser!r}")
    denoiser.to(dtype)
    model = Model(process, denoiser, shape=config["shape"], **meaning)
    model.about = model.about or read_report(run, folder)
    try:
        model.tuning = model.tuning
    except ValueError as error:
        raise ValueError(f"its tuning is invalid: {error}") from error
    try:
        model.reverse.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        problem = f"does not fit {CONFIG}: {error}"
        raise safe_read.UnreadableError(folder / WEIGHTS, problem, safe_read.MODEL_REMEDY) from error
    model.reverse.eval()
    return model


def _insert(config: dict[str, Any], network: nn.Module | None, process: ForwardProcess | None) -> dict[str, str]:
    """Replace descriptions in the configuration by given instances; return the parts that are still missing."""
    denoiser = config["denoiser"]
    inner = denoiser.get("network") if isinstance(denoiser, dict) else None
    lacking = {"network": not_rebuildable(denoiser) or not_rebuildable(inner)}
    lacking["process"] = not_rebuildable(config["process"])
    if network is not None:
        network = unwrapped(network)
        if lacking["network"] is not None:
            mark_not_rebuildable(network)
        if isinstance(network, Denoiser):
            config["denoiser"] = network
        elif inner is None:
            raise ValueError(
                f"its denoiser contains no network to replace: write network={lacking['network']}(...), a denoiser"
            )
        else:
            config["denoiser"] = denoiser | {"network": network}
    if process is not None:
        if lacking["process"] is not None:
            mark_not_rebuildable(process)
        config["process"] = process
    given = {"network": network, "process": process}
    return {name: cls for name, cls in lacking.items() if cls is not None and given[name] is None}


def _read_meaning(config: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    try:
        if config.get("form") is not None:
            out["form"] = format_from_config(config["form"])
        if config.get("kind") is not None:
            out["kind"] = Kind(config["kind"]["name"])
            types, form = tuple(config["kind"].get("types", ())), out.get("form")
            if types and isinstance(form, TableFormat):  # saved before columns had types of their own
                out["form"] = form.with_frame_types(types, tuple(config["kind"].get("labels", ())))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"its description of the data format is invalid: {error}") from error
    if config.get("about") is not None:
        if not isinstance(config["about"], dict):
            raise ValueError(f"its entry 'about' must be a mapping, got {type(config['about']).__name__}")
        out["about"] = config["about"]
    return out


def _read_config(folder: Path, run: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if (folder / MANIFEST).exists():
        # A checkpoint: its manifest has the checksums of the configuration and the weights.
        manifest = Manifest(folder, run)
        config = safe_read.parse_json(manifest.read(CONFIG), str(path))
        listed = manifest.files.get(WEIGHTS, {}).get("sha256")
    else:
        config, listed = safe_read.read_json(path, inside=run), None
    if not isinstance(config, dict) or "format" not in config:
        raise ValueError("it is not the configuration of a tauleap model: the entry 'format' is missing")
    if config["format"] != FORMAT:
        raise safe_read.OtherFormatError(path, config["format"], FORMAT)
    missing, unknown = _REQUIRED - config.keys(), config.keys() - _FIELDS
    if missing:
        raise ValueError(f"the entries {', '.join(sorted(missing))} are missing")
    if unknown:
        raise ValueError(f"it has an unknown entry {min(unknown)!r}")
    if not has_right_checksum(config):
        raise safe_read.UnreadableError(path, "is damaged: its checksum differs", safe_read.MODEL_REMEDY)
    if listed not in (None, config["weights_sha256"]):
        problem = f"has another checksum in {MANIFEST} than in {CONFIG}"
        raise safe_read.UnreadableError(folder / WEIGHTS, problem, safe_read.MODEL_REMEDY)
    return config


def _dtype_of(config: Mapping[str, Any], weights: Mapping[str, Declared]) -> torch.dtype | None:
    """Return float32 for a compact file; else the dtype in which the model was trained."""
    if "dtype" in config:
        if config["dtype"] != "float32":
            raise ValueError(f"its entry 'dtype' must be \"float32\" or absent, got {config['dtype']!r}")
        return torch.float32
    floats = (w.dtype for name, w in weights.items() if name.startswith("denoiser.") and w.dtype.is_floating_point)
    return next(floats, None)
