"""FID and Inception Score, by torch-fidelity.

Papers compare these numbers to the last decimal, and each detail of the Inception network and of the resizing changes
them. Therefore torch-fidelity is used, which reproduces the original programs. It is an extra, because it needs
torchvision: ``pip install 'tauleap[fid]'``. With torch of a CPU-only build torchvision must be of such a build too.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from tauleap import _check, _device
from tauleap.evaluate._mode import evaluating
from tauleap.evaluate.pictures import pictures

_INCEPTION = "inception-v3-compat"
_PUBLISHED = 50_000
_LEAST_REFERENCE = 10_000
_SPLITS = 10
_KNOWN = {"cifar10-train": 50_000}
"""Pictures in the set that torch-fidelity has by this name."""
_GIVEN_NAME = "tauleap-given"
_given: ContextVar[Any] = ContextVar("the extractor that was given")


@dataclass(frozen=True)
class Fidelity:
    """Hold the result of :func:`fid_and_is`.

    >>> print(Fidelity(3.14159, 9.46, 0.11, n=1000, n_reference=50_000, extractor="inception-v3-compat"))
    FID 3.142, IS 9.460 +- 0.110 (n = 1,000; published figures use 50,000 samples)
    """

    fid: float
    """The Frechet Inception Distance."""
    isc_mean: float
    """The Inception Score, the mean over the splits."""
    isc_std: float
    """The standard deviation of the Inception Score over the splits, as papers report it."""
    n: int | None
    """The number of samples; None for a dataset that torch-fidelity knows by name."""
    n_reference: int | None
    """The number of reference pictures; None as above, except for cifar10-train, whose number is known."""
    extractor: str
    """The feature extractor."""
    weights: str | None = None
    """The file that the extractor's weights were read from. Default: None, the file that torch-fidelity downloads."""
    fid_layer: str | None = None
    """The layer of the features of FID. Default: None, that of the extractor."""
    isc_layer: str | None = None
    """The layer of the logits of the Inception Score. Default: None, that of the extractor."""
    splits: int = _SPLITS
    """The number of splits of the Inception Score. Default: 10."""

    @property
    def comparable(self) -> bool:
        """Whether the result is comparable with published figures.

        That requires the Inception network and the layers of torch-fidelity, 10 splits, 50,000 samples, and a reference
        of 10,000 pictures or more: FID is too large for few pictures. Weights from a file are not checked, and count
        as another network.
        """
        return self.n == _PUBLISHED and not self._differences()

    def __str__(self) -> str:
        remarks = [] if self.n is None else [f"n = {self.n:,}"]
        other = self._differences()
        if other:
            remarks.append(f"{', '.join(other)}: not to be compared with published figures")
        elif self.n is not None and self.n != _PUBLISHED:
            remarks.append(f"published figures use {_PUBLISHED:,} samples")
        return f"FID {self.fid:.3f}, IS {self.isc_mean:.3f} +- {self.isc_std:.3f} ({'; '.join(remarks) or 'n unknown'})"

    def _differences(self) -> list[str]:
        """Return the differences from the setting of published figures, except the number of samples."""
        out = []
        if self.extractor != _INCEPTION:
            out.append(f"features of {self.extractor}")
        if self.weights is not None:
            out.append(f"weights of {self.weights}")
        out += [f"layer {layer}" for layer in (self.fid_layer, self.isc_layer) if layer is not None]
        if self.splits != _SPLITS:
            out.append(f"{self.splits} splits")
        if self.n_reference is None:
            out.append("a reference of unknown size")
        elif self.n_reference < _LEAST_REFERENCE:
            out.append(f"a reference of {self.n_reference:,}")
        return out


def fid_and_is(
    samples: Any,
    reference: Any,
    *,
    extractor: str | nn.Module = _INCEPTION,
    weights: str | os.PathLike[str] | None = None,
    fid_layer: str | None = None,
    isc_layer: str | None = None,
    splits: int = _SPLITS,
    batch_size: int = 64,
    device: torch.device | str | None = None,
    datasets: str | os.PathLike[str] | None = None,
    download: bool = True,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Fidelity:
    """Return the FID between ``samples`` and ``reference``, and the Inception Score of ``samples``.

    Both numbers depend on how many samples there are: FID falls with n and IS rises, so that figures of different n do
    not compare. Published ones use 50,000 samples and, for CIFAR-10, its 50,000 training pictures as the reference::

        tauleap sample runs/cifar10 -n 50000 --format npy --out drawn
        fid_and_is("drawn", "cifar10-train")

    Args:
        samples: what :func:`tauleap.evaluate.pictures.pictures` reads (a folder of PNGs, a .npy file, an array or a
            tensor (n, C, H, W) of shades 0..255), or the name of a dataset that torch-fidelity knows. Grey pictures are
            repeated to three channels.
        reference: the same.
        extractor: the network: a name that torch-fidelity knows, or an object of its class ``FeatureExtractorBase``,
            which runs where its weights are. With any other than the Inception network the numbers are for your own
            comparisons only. Default: the Inception network of published figures.
        weights: a file with the weights of a named extractor. Default: torch-fidelity downloads them.
        fid_layer: the features of the extractor for the FID. Default: those that the extractor names for it.
        isc_layer: the features that are the logits of the Inception Score. Default: those that the extractor names.
        splits: the number of parts of the samples; the Inception Score is the mean over them. Default: 10.
        batch_size: the number of pictures per evaluation. Default: 64.
        device: the device of a named extractor. Default: CUDA if there is one, else the CPU.
        datasets: the folder of the datasets that torch-fidelity knows by name. Default: that of torch-fidelity.
        download: whether those may be downloaded. Default: True.
        cache: the folder where torch-fidelity keeps features of datasets that it knows by name. It reads them as
            pickles: give one that only you can write to, and another one for other weights. Default: that of
            torch-fidelity.
        progress: whether progress is printed to the standard error. Default: False.

    Returns:
        FID and Inception Score, with the settings that decide whether published figures are comparable.

    Raises:
        ImportError: torch-fidelity is not installed.

    >>> fid_and_is(torch.zeros(5, 1, 8, 8, dtype=torch.uint8), "cifar10-train")
    Traceback (most recent call last):
        ...
    ValueError: samples must be at least 10 pictures, got 5
    """
    first, n = _input(samples, "samples")
    second, n_reference = _input(reference, "reference")
    _check.integer("splits", splits, least=1)
    _check.integer("batch_size", batch_size, least=1)
    for name, number, least in (("samples", n, max(2, splits)), ("reference", n_reference, 2)):
        if number is not None and number < least:
            raise ValueError(f"{name} must be at least {least} pictures, got {number}")
    fidelity = _torch_fidelity()
    options: dict[str, Any] = {
        "feature_extractor": extractor,
        "feature_extractor_weights_path": None if weights is None else str(_checked_weights(weights)),
        "cuda": _device.has_cuda() if device is None else _device.runs_cuda(torch.device(device)),
    }
    if not isinstance(extractor, str):
        if not isinstance(extractor, fidelity.FeatureExtractorBase):
            raise TypeError(
                f"extractor must be a name or an object of torch_fidelity.FeatureExtractorBase, got "
                f"{type(extractor).__name__}"
            )
        if cache is not None or weights is not None or device is not None:
            raise ValueError("cache, weights and device are for an extractor that is given by name: leave them out")
        place = next((p.device for p in extractor.parameters()), _device.CPU)
        options |= {"feature_extractor": _adapter(fidelity), "cuda": _device.runs_cuda(place)}
    with _passed_to_adapter(extractor):
        found = fidelity.calculate_metrics(
            input1=first,
            input2=second,
            fid=True,
            isc=True,
            feature_layer_fid=fid_layer,
            feature_layer_isc=isc_layer,
            isc_splits=splits,
            batch_size=batch_size,
            datasets_root=None if datasets is None else str(datasets),
            datasets_download=download,
            cache=cache is not None,
            cache_root=None if cache is None else str(cache),
            save_cpu_ram=True,  # read in this process: pictures are small, and others would each hold the arrays
            verbose=progress,
            **options,
        )
    return Fidelity(
        fid=found[fidelity.KEY_METRIC_FID],
        isc_mean=found[fidelity.KEY_METRIC_ISC_MEAN],
        isc_std=found[fidelity.KEY_METRIC_ISC_STD],
        n=n,
        n_reference=n_reference,
        extractor=extractor if isinstance(extractor, str) else str(cast(Any, extractor).get_name()),
        weights=None if weights is None else str(weights),
        fid_layer=fid_layer,
        isc_layer=isc_layer,
        splits=splits,
    )


def _input(source: Any, name: str) -> tuple[Any, int | None]:
    """Return the input that torch-fidelity takes, and its number of pictures; None for an unknown number."""
    if isinstance(source, str) and not Path(source).exists() and Path(source).name == source and "." not in source:
        return source, _KNOWN.get(source)  # a name that torch-fidelity does not know either is refused there
    found = pictures(source, name=name)
    return found, len(found)  # pyright: ignore[reportArgumentType] (both kinds have a length)


def _checked_weights(weights: str | os.PathLike[str]) -> Path:
    """Return the file; raise ValueError unless it holds only tensors, since torch-fidelity would run any pickle."""
    if not Path(weights).is_file():
        raise FileNotFoundError(f"weights must be a file, got {weights}, which does not exist")
    try:
        torch.load(weights, map_location=_device.META, weights_only=True)
    except Exception as error:  # a damaged pickle fails in many ways
        raise ValueError(f"{weights} does not hold weights of a network and nothing else: {error}") from error
    return Path(weights)


def _torch_fidelity() -> ModuleType:
    try:
        import torch_fidelity  # pyright: ignore[reportMissingImports] (an extra)
    except ImportError as error:
        raise ImportError("FID and Inception Score need torch-fidelity: pip install 'tauleap[fid]'") from error
    except RuntimeError as error:
        # What torchvision says when it was built for another torch.
        raise ImportError(
            f"torchvision does not fit this torch ({torch.__version__}): install the build that does ({error})"
        ) from error
    return torch_fidelity


@contextmanager
def _passed_to_adapter(extractor: str | nn.Module) -> Iterator[None]:
    """Pass ``extractor``, in evaluation mode, to the adapter inside the block."""
    if isinstance(extractor, str):
        yield
        return
    token = _given.set(extractor)
    try:
        with evaluating(extractor):
            yield
    finally:
        _given.reset(token)


@functools.cache
def _adapter(fidelity: ModuleType) -> str:
    """Return the name of a registered class through which torch-fidelity calls the given object."""
    base: Any = fidelity.FeatureExtractorBase

    class Given(base):
        def __init__(self, name: str, features_list: list[str], **_: Any) -> None:
            super().__init__(name, features_list)
            # In a tuple it is no part of this module: what is done to this one (gradients, mode) is not done to it.
            self.held = (_given.get(),)

        @staticmethod
        def get_provided_features_list() -> tuple[str, ...]:
            return tuple(_given.get().get_requested_features_list())

        @staticmethod
        def get_default_feature_layer_for_metric(metric: str) -> str:
            return _given.get().get_default_feature_layer_for_metric(metric)

        @staticmethod
        def can_be_compiled() -> bool:
            return False

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            extractor = self.held[0]
            features = extractor.convert_features_tuple_to_dict(extractor(x))
            return tuple(features[name] for name in self.features_list)

    fidelity.register_feature_extractor(_GIVEN_NAME, Given)
    return _GIVEN_NAME
