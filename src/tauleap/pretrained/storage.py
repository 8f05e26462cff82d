"""The two files of a model, and how they are written and read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from tauleap import _device, _files, _owned, _read
from tauleap._full_disk import explaining_full_disk
from tauleap._manifest import MANIFEST, Manifest
from tauleap._version import __version__
from tauleap.data.form import form_from
from tauleap.data.memory import Kind
from tauleap.denoise import Denoiser
from tauleap.network.arguments import unwrapped
from tauleap.noise import ForwardProcess
from tauleap.pretrained.builtin import builtin_models, locate
from tauleap.pretrained.checkpoints import REPORT, latest_checkpoint
from tauleap.pretrained.config import (
    IN_DENOISER,
    IN_PROCESS,
    UnknownClassError,
    build,
    describe_part,
    mark_not_rebuildable,
    not_rebuildable,
    own_classes,
    unknown_classes,
)
from tauleap.pretrained.model import Model
from tauleap.pretrained.outline import check_denoiser, check_process, check_shape
from tauleap.pretrained.weights import read_header, read_weights

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
_NETWORK = "denoiser.network."
_CHECKSUM, _REPORT_CHECKSUM = "config_sha256", "sha256"
_REQUIRED = {"weights_sha256", "process", "denoiser", "shape"}
_FIELDS = _REQUIRED | {"format", "tauleap", _CHECKSUM, "form", "kind", "about", "dtype"}


def configuration(model: Model) -> dict[str, Any]:
    """How to build the model, as JSON can hold it."""
    return {
        "process": describe_part(model.process, "process"),
        "denoiser": describe_part(model.denoiser, "denoiser"),
        "shape": None if model.shape is None else list(model.shape),
    } | _meaning(model)


def _meaning(model: Model) -> dict[str, Any]:
    """What its states mean and what is known of it, where something is."""
    out: dict[str, Any] = {}
    if model.form is not None:
        out["form"] = model.form.config()
    if model.kind != Kind():
        out["kind"] = json.loads(json.dumps(asdict(model.kind)))
    if model.about:
        out["about"] = json.loads(json.dumps(model.about, allow_nan=False))
    return out


def as_files(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> dict[str, bytes]:
    """Names and contents of the model's files; the configuration holds the checksums of the weights and of itself."""
    content = safetensors.torch.save(_separate(weights), metadata={"format": "pt"})
    head = {"format": FORMAT, "tauleap": __version__, "weights_sha256": hashlib.sha256(content).hexdigest()}
    return {WEIGHTS: content, CONFIG: _config_bytes(head | dict(config))}


def with_checksum(config: Mapping[str, Any], field: str = _CHECKSUM) -> dict[str, Any]:
    """Return the configuration with the SHA-256 of its own content, so that no changed character goes unnoticed.

    Args:
        config: What JSON can hold; a checksum that it has already is replaced.
        field: The name of the checksum. Default: that of ``config.json``.

    >>> with_checksum({"format": 1})["config_sha256"][:8]
    '3f0a9925'
    """
    plain = {name: value for name, value in config.items() if name != field}
    # Sorted and without spaces, so that the checksum is of what the file says and not of how it is laid out.
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    head = {name: plain[name] for name in ("format", "tauleap", "weights_sha256") if name in plain}
    return head | {field: digest} | plain


def rewrite_config(folder: str | os.PathLike[str]) -> None:
    """Write the configuration of a model folder again, with its checksum, after the model was loaded once.

    For models that were saved before configurations had a checksum.
    """
    load(folder, device=_device.CPU)
    path = Path(folder) / CONFIG
    config = _read.document(path, inside=Path(folder))
    with _files.replacing(path) as file:
        file.write(_config_bytes(config))


def _config_bytes(config: Mapping[str, Any]) -> bytes:
    content = json.dumps(with_checksum(config), indent=2, allow_nan=False).encode() + b"\n"
    if len(content) > _read.JSON_BYTES:
        raise ValueError(
            f"{CONFIG} would have {len(content):,} bytes, at most {_read.JSON_BYTES:,} can be loaded again: leave out "
            "columns or categories"
        )
    return content


def save(model: Model, folder: str | os.PathLike[str], *, compact: bool = False) -> Path:
    """Writes the model's files into ``folder``; ``compact`` ones with weights in 16 bits, read as float32."""
    folder = Path(folder)
    config, weights = configuration(model), _state_of(model)
    if compact:
        others = {str(p.dtype) for p in model.denoiser.parameters() if p.dtype != torch.float32}
        if others:
            raise ValueError(f"compact files are of weights in float32, these are {', '.join(others)}: leave it out")
        config, weights = config | {"dtype": "float32"}, {name: _halved(name, w) for name, w in weights.items()}
    if folder.exists():
        _owned.check_no_file(folder, "the model")
    files = as_files(config, weights)
    with explaining_full_disk(folder):
        _write(folder, files)
    return folder


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a model into a folder that is new, empty or of a model."""
    if folder.is_dir() and any(folder.iterdir()):
        if not _is_model(folder / CONFIG):
            raise ValueError(f"{folder} holds something that is not a model: write the name of a new folder")
        if (folder / MANIFEST).exists():
            raise ValueError(f"{folder} is a checkpoint of a run, which is not written again: write a new folder")
        # Weights first: were the writing cut off between the two, the checksum in the old configuration would tell.
        for name, content in files.items():
            with _files.replacing(folder / name) as file:
                file.write(content)
        return
    _owned.remove_abandoned(folder)
    with _files.staged(folder) as unfinished:
        for name, content in files.items():
            (unfinished / name).write_bytes(content)


def _state_of(model: Model) -> dict[str, Tensor]:
    """Return the weights by the names that they have without wrappers such as that of ``torch.compile``."""
    weights, network = model.reverse.state_dict(), getattr(model.denoiser, "network", None)
    if not isinstance(network, nn.Module) or unwrapped(network) is network:
        return weights
    outside = {name: weight for name, weight in weights.items() if not name.startswith(_NETWORK)}
    return outside | {f"{_NETWORK}{name}": weight for name, weight in unwrapped(network).state_dict().items()}


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
    with _read.explaining(folder / CONFIG, _read.MODEL_REMEDY):
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
        raise _read.FileError(str(asked), f"does not fit the network that is given, {error}", remedy) from error
    weights = read_weights(folder / WEIGHTS, inside=run, sha256=config["weights_sha256"])
    process = build(config["process"], weights, IN_PROCESS | dict(own))
    denoiser = build(config["denoiser"], weights, IN_DENOISER | dict(own))
    if not isinstance(process, ForwardProcess) or not isinstance(denoiser, Denoiser):
        raise ValueError(f"it must describe a process and a denoiser, got {process!r} and {denoiser!r}")
    denoiser.to(_dtype_of(config, weights))
    model = Model(process, denoiser, shape=config["shape"], **_read_meaning(config))
    model.about = model.about or _report_of(run, folder)
    _check_shapes(model)
    try:
        model.reverse.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        problem = f"does not fit {CONFIG}: {error}"
        raise _read.UnreadableError(folder / WEIGHTS, problem, _read.MODEL_REMEDY) from error
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


def write_report(run: Path, checkpoint: Path, about: Mapping[str, Any]) -> None:
    """Keeps what is known of a checkpoint's model beside it: the checkpoint itself is never touched again."""
    report = with_checksum({"checkpoint": checkpoint.name, "about": about}, _REPORT_CHECKSUM)
    content = json.dumps(report, indent=2, allow_nan=False)
    with _files.replacing(run / REPORT) as file:
        file.write(content.encode() + b"\n")


def _report_of(run: Path, checkpoint: Path) -> dict[str, Any]:
    """What :func:`write_report` kept, if it is about this checkpoint and not damaged."""
    beside = run if (run / REPORT).is_file() else run.parent
    try:
        kept = _read.document(beside / REPORT, inside=beside)
    except (OSError, ValueError):
        return {}
    fits = isinstance(kept, dict) and kept.get("checkpoint") == checkpoint.resolve().name
    fits = fits and _has_right_checksum(kept, _REPORT_CHECKSUM)
    about = kept.get("about") if fits else None
    return about if isinstance(about, dict) else {}


def _read_meaning(config: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    try:
        if config.get("form") is not None:
            out["form"] = form_from(config["form"])
        if config.get("kind") is not None:
            kind = config["kind"]
            out["kind"] = Kind(kind["name"], tuple(kind["types"]), tuple(kind.get("labels", ())))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it does not say what the states mean: {error}") from error
    if config.get("about") is not None:
        if not isinstance(config["about"], dict):
            raise ValueError("about must be a mapping")
        out["about"] = config["about"]
    return out


def _is_model(path: Path) -> bool:
    """Whether a file is the configuration of one of our models: other libraries have a file of this name, too."""
    try:
        config = _read.document(path, inside=path.parent)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"format", "weights_sha256", "process", "denoiser"} <= config.keys()


def _read_config(folder: Path, run: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if (folder / MANIFEST).exists():
        # A checkpoint: its configuration and its weights must be those that were written.
        manifest = Manifest(folder, run)
        config = _read.parse(manifest.read(CONFIG), str(path))
        listed = manifest.files.get(WEIGHTS, {}).get("sha256")
    else:
        config, listed = _read.document(path, inside=run), None
    if not isinstance(config, dict) or "format" not in config:
        raise ValueError("it is not the configuration of a tauleap model, which has a format")
    if config["format"] != FORMAT:
        raise _read.OtherFormatError(path, config["format"], FORMAT)
    missing, unknown = _REQUIRED - config.keys(), config.keys() - _FIELDS
    if missing:
        raise ValueError(f"it has no {', '.join(sorted(missing))}")
    if unknown:
        raise ValueError(f"it has a field {min(unknown)!r}, which is not known")
    if not _has_right_checksum(config):
        raise _read.UnreadableError(path, "is damaged: its checksum differs", _read.MODEL_REMEDY)
    if listed not in (None, config["weights_sha256"]):
        problem = f"has another checksum in {MANIFEST} than in {CONFIG}"
        raise _read.UnreadableError(folder / WEIGHTS, problem, _read.MODEL_REMEDY)
    return config


def _has_right_checksum(config: dict[str, Any], field: str = _CHECKSUM) -> bool:
    """Whether a configuration has the checksum that it should have; one saved before there was any has none."""
    return field not in config or config[field] == with_checksum(config, field)[field]


def _dtype_of(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> torch.dtype | None:
    """float32 for a compact file; else a model trained in float64 or in a half-precision format stays in it."""
    if "dtype" in config:
        if config["dtype"] != "float32":
            raise ValueError(f'it must give the dtype "float32", or none, got {config["dtype"]!r}')
        return torch.float32
    floats = (w.dtype for name, w in weights.items() if name.startswith("denoiser.") and w.is_floating_point())
    return next(floats, None)


def _halved(name: str, weight: Tensor) -> Tensor:
    """A weight of the network in float16: to eleven significant bits above 6e-5, to 3e-8 below; all else as it is."""
    if not name.startswith("denoiser.") or weight.dtype != torch.float32:
        return weight
    half = weight.to(torch.float16)
    if not bool(half.isfinite().all()):
        raise ValueError(f"{name} has values beyond 65504, the largest of float16: save it without compact=True")
    return half


def _separate(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, contiguous, and none in the memory of another, as the format wants them."""
    out: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in weights.items():
        own = tensor.detach().cpu().contiguous()
        if own.untyped_storage().data_ptr() in seen:
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        out[name] = own
    return out
