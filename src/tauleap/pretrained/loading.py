"""Load a model from a folder: check its files, rebuild it from the configuration, and set its weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

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
from tauleap.pretrained.checkpoints import latest_checkpoint, read_report
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
from tauleap.storage.outline import check_denoiser, check_process, check_shape
from tauleap.storage.save import CHECKSUM, CONFIG, FORMAT, WEIGHTS, config_bytes, has_right_checksum
from tauleap.storage.weights import read_header, read_weights

_REQUIRED = {"weights_sha256", "process", "denoiser", "shape"}
_FIELDS = _REQUIRED | {"format", "tauleap", CHECKSUM, "form", "kind", "about", "dtype"}


def rewrite_config(folder: str | os.PathLike[str]) -> None:
    """Add the checksum to a configuration that was saved before there were any, after loading the model once.

    Args:
        folder: the folder of the model.
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
    """Return the model in ``folder``, in evaluation mode, with the averaged weights where it comes from training.

    >>> load("toy").shape
    (2,)

    Args:
        folder: The folder of a saved model, of a checkpoint, or of a run, whose latest checkpoint is taken. Where there
            is none, the name of a model of the package, such as "toy", or the text "owner/name", a repository of the
            Hugging Face hub (``pip install 'tauleap[hub]'``).
        classes: Your own classes in the model, such as a process and a network. The file gives their arguments, so
            list only classes that may be constructed with any arguments.
        network: A network, or a denoiser, that receives the weights: for a model whose file cannot rebuild it, since
            its arguments could not be recorded. Default: the one that the file describes.
        process: The process, for a model whose file cannot rebuild it. Default: the one that the file describes.
        device: Where the model is put: a device or its name, such as "cuda:1". Default: "auto", the accelerator of
            this machine (cuda, mps, xpu, ...), or the CPU where there is none.

    Raises:
        FileNotFoundError: There is no model, or the hub cannot be reached.
        UnknownClassError: The model has classes of its author's own, or parts that its file cannot rebuild; the
            message has the call that loads it.
        TypeError: ``network`` is not a module, or ``process`` not a process.
        ValueError: A file is damaged, or this machine does not have the device.
    """
    device = _device.resolve(device)
    asked, own = folder, own_classes(classes)
    for name, value, kind in (("network", network, nn.Module), ("process", process, ForwardProcess)):
        if value is not None and not isinstance(value, kind):
            what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
            raise TypeError(f"{name} must be an instance of {kind.__name__}, got {what}: write {name}=...(...)")
    folder = run = locate(folder)
    if not (folder / CONFIG).exists():
        folder = latest_checkpoint(folder) or folder
    if not (folder / CONFIG).exists() or not (folder / WEIGHTS).exists():
        raise FileNotFoundError(
            f"{folder} holds no model: it needs {CONFIG} and {WEIGHTS}; models of the package are "
            f"{', '.join(builtin_models())}"
        )
    with safe_read.explaining(folder / CONFIG, safe_read.MODEL_REMEDY):
        model = _load(folder, run, asked, own, network, process)
    return model.to(device)


def _load(
    folder: Path,
    run: Path,
    asked: str | os.PathLike[str],
    own: Mapping[str, type],
    network: nn.Module | None,
    process: ForwardProcess | None,
) -> Model:
    """Load the model in ``folder``, whose files may be links to others in ``run``; ``asked`` is its name in errors."""
    config = _read_config(folder, run)
    missing = _give(config, network, process)
    strangers = list(unknown_classes([config["process"], config["denoiser"]], own))
    if strangers or missing:
        raise UnknownClassError(strangers, asked, missing)
    declared = read_header(folder / WEIGHTS, inside=run)
    check_process(config["process"], config["denoiser"])
    check_shape(config["shape"], config["denoiser"])
    try:
        check_denoiser(config["denoiser"], declared, own)
    except ValueError as error:
        if network is None:
            raise
        remedy = "construct it with the arguments that it was trained with"
        raise safe_read.FileError(str(asked), f"does not fit the network that is given, {error}", remedy) from error
    weights = read_weights(folder / WEIGHTS, inside=run, sha256=config["weights_sha256"])
    process = build(config["process"], weights, IN_PROCESS | dict(own))
    denoiser = build(config["denoiser"], weights, IN_DENOISER | dict(own))
    if not isinstance(process, ForwardProcess) or not isinstance(denoiser, Denoiser):
        raise ValueError(f"it must describe a process and a denoiser, got {process!r} and {denoiser!r}")
    denoiser.to(_dtype_of(config, weights))
    model = Model(process, denoiser, shape=config["shape"], **_read_meaning(config))
    model.about = model.about or read_report(run, folder)
    _check_shapes(model)
    try:
        model.reverse.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        problem = f"does not fit {CONFIG}: {error}"
        raise safe_read.UnreadableError(folder / WEIGHTS, problem, safe_read.MODEL_REMEDY) from error
    model.reverse.eval()
    return model


def _give(config: dict[str, Any], network: nn.Module | None, process: ForwardProcess | None) -> dict[str, str]:
    """Put instances of the program into the places of their descriptions; return the parts that are still missing."""
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
            raise ValueError(f"its denoiser has no network of its own: write a Denoiser, {lacking['network']}(...)")
        else:
            config["denoiser"] = denoiser | {"network": network}
    if process is not None:
        if lacking["process"] is not None:
            mark_not_rebuildable(process)
        config["process"] = process
    given = {"network": network, "process": process}
    return {name: cls for name, cls in lacking.items() if cls is not None and given[name] is None}


def _check_shapes(model: Model) -> None:
    """Refuse a process or a form whose sites are not those of the model: sampling would fail only at its end."""
    if model.shape is None:
        return
    model.process._check_sites(torch.Size((1, *model.shape)), "shape")
    if model.form is not None and model.form.shape != model.shape:
        raise ValueError(f"its shape is {model.shape}, that of its {model.form.kind} is {model.form.shape}")


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
        raise ValueError(f"it does not say what the states mean: {error}") from error
    if config.get("about") is not None:
        if not isinstance(config["about"], dict):
            raise ValueError("about must be a mapping")
        out["about"] = config["about"]
    return out


def _read_config(folder: Path, run: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if (folder / MANIFEST).exists():
        # A checkpoint: its configuration and its weights must be those that were written.
        manifest = Manifest(folder, run)
        config = safe_read.parse_json(manifest.read(CONFIG), str(path))
        listed = manifest.files.get(WEIGHTS, {}).get("sha256")
    else:
        config, listed = safe_read.read_json(path, inside=run), None
    if not isinstance(config, dict) or "format" not in config:
        raise ValueError("it is not the configuration of a tauleap model, which has a format")
    if config["format"] != FORMAT:
        raise safe_read.OtherFormatError(path, config["format"], FORMAT)
    missing, unknown = _REQUIRED - config.keys(), config.keys() - _FIELDS
    if missing:
        raise ValueError(f"it has no {', '.join(sorted(missing))}")
    if unknown:
        raise ValueError(f"it has a field {min(unknown)!r}, which is not known")
    if not has_right_checksum(config):
        raise safe_read.UnreadableError(path, "is damaged: its checksum differs", safe_read.MODEL_REMEDY)
    if listed not in (None, config["weights_sha256"]):
        problem = f"has another checksum in {MANIFEST} than in {CONFIG}"
        raise safe_read.UnreadableError(folder / WEIGHTS, problem, safe_read.MODEL_REMEDY)
    return config


def _dtype_of(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> torch.dtype | None:
    """float32 for a compact file; else a model trained in float64 or in a half-precision format stays in it."""
    if "dtype" in config:
        if config["dtype"] != "float32":
            raise ValueError(f'it must give the dtype "float32", or none, got {config["dtype"]!r}')
        return torch.float32
    floats = (w.dtype for name, w in weights.items() if name.startswith("denoiser.") and w.is_floating_point())
    return next(floats, None)
