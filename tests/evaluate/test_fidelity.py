"""FID and Inception Score by torch-fidelity: with the package where it is installed, and everywhere with a stand-in.

The stand-in has the part of torch-fidelity's interface that is used, and the two formulae. ``diagnostics/fidelity.py``
compares with the package itself.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tauleap.evaluate import Fidelity, Moments, fid_and_is, frechet_of_moments
from tauleap.evaluate.pictures import pictures

INSTALLED = ["torch_fidelity"] if importlib.util.find_spec("torch_fidelity") else []


class StandInBase(nn.Module):
    def __init__(self, name: str, features_list: list[str]) -> None:
        super().__init__()
        assert set(features_list) <= set(self.get_provided_features_list())
        self.name, self.features_list = name, features_list

    def get_name(self) -> str:
        return self.name

    def get_requested_features_list(self) -> list[str]:
        return self.features_list

    def convert_features_tuple_to_dict(self, features: tuple[Tensor, ...]) -> dict[str, Tensor]:
        return dict(zip(self.features_list, features, strict=True))

    @staticmethod
    def get_provided_features_list() -> tuple[str, ...]:
        raise NotImplementedError


class StandIn(ModuleType):
    """The functions of torch-fidelity that are called; ``options`` holds those of the last call."""

    FeatureExtractorBase = StandInBase
    KEY_METRIC_FID, KEY_METRIC_ISC_MEAN, KEY_METRIC_ISC_STD = "fid", "mean", "std"

    def __init__(self) -> None:
        super().__init__("torch_fidelity")
        self.known: dict[str, Any] = {}
        self.options: dict[str, Any] = {}

    def register_feature_extractor(self, name: str, cls: type) -> None:
        assert name not in self.known
        self.known[name] = cls

    def calculate_metrics(self, **options: Any) -> dict[str, float]:
        self.options = options
        if isinstance(options["feature_extractor"], str) and options["feature_extractor"] not in self.known:
            return {"fid": 1.0, "mean": 2.0, "std": 0.5}
        cls = self.known[options["feature_extractor"]]
        layers = [options[f"feature_layer_{m}"] or cls.get_default_feature_layer_for_metric(m) for m in ("fid", "isc")]
        extractor = cls(options["feature_extractor"], layers, cuda=options["cuda"]).requires_grad_(False).train()
        found = []
        for source in (options["input1"], options["input2"]):
            rows = torch.stack([source[k] for k in range(len(source))])
            found.append(extractor.convert_features_tuple_to_dict(extractor(rows)))
        fid = frechet_of_moments(*(Moments.of(features[layers[0]]) for features in found))
        mean, std = score(found[0][layers[1]], options["isc_splits"])
        return {"fid": fid, "mean": mean, "std": std}


def score(logits: Tensor, splits: int) -> tuple[float, float]:
    """exp of the mean divergence of p(y | x) from p(y), over parts of the rows in torch-fidelity's order."""
    order = np.random.RandomState(2020).permutation(len(logits))
    parts = np.array_split(logits.double()[order], splits)
    values = []
    for part in map(torch.as_tensor, parts):
        log_p = part.log_softmax(1)
        values.append(float((log_p.exp() * (log_p - log_p.exp().mean(0).log())).sum(1).mean().exp()))
    return float(np.mean(values)), float(np.std(values))


@pytest.fixture(params=["stand-in", *INSTALLED])
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "stand-in":
        module = StandIn()
        monkeypatch.setitem(sys.modules, "torch_fidelity", module)
        return module
    return importlib.import_module("torch_fidelity")


def small(package: Any) -> Any:
    """A network of two layers instead of Inception, in float64 so that rounding is far below what is compared."""

    class Small(package.FeatureExtractorBase):
        def __init__(self) -> None:
            super().__init__("small", ["features", "logits"])
            with torch.random.fork_rng():
                torch.manual_seed(0)
                self.one = nn.Conv2d(3, 6, 3, dtype=torch.float64)
                self.two = nn.Linear(6, 4, dtype=torch.float64)
            self.noise = nn.Dropout(0.5)  # evaluation must be in the mode of evaluation

        @staticmethod
        def get_provided_features_list() -> tuple[str, ...]:
            return "features", "logits"

        @staticmethod
        def get_default_feature_layer_for_metric(metric: str) -> str:
            return {"fid": "features", "isc": "logits"}[metric]

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            assert x.dtype == torch.uint8
            features = self.noise(self.one(x.double() / 255).tanh().mean((2, 3)))
            return features, 20 * self.two(features)

    return Small()


def drawn(seed: int, n: int, high: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, (n, 3, 6, 6)).astype(np.uint8)


def test_the_numbers_are_those_of_the_same_features(package: Any, tmp_path: Path) -> None:
    samples, reference = drawn(0, 50, 256), drawn(1, 70, 200)
    np.save(tmp_path / "reference.npy", reference)
    extractor = small(package)
    extractor.train()
    found = fid_and_is(samples, tmp_path / "reference.npy", extractor=extractor, splits=5, batch_size=16)
    assert extractor.training
    assert all(p.requires_grad for p in extractor.parameters())
    extractor.eval()
    with torch.no_grad():
        (x, logits), (y, _) = extractor(torch.from_numpy(samples)), extractor(torch.from_numpy(reference))
    assert found.fid == pytest.approx(frechet_of_moments(Moments.of(x), Moments.of(y)), rel=1e-9)
    mean, std = score(logits, 5)
    assert found.isc_mean == pytest.approx(mean, rel=1e-9)
    assert found.isc_std == pytest.approx(std, rel=1e-6)
    assert (found.n, found.n_reference, found.extractor, found.comparable) == (50, 70, "small", False)
    assert "features of small, 5 splits, a reference of 70: not to be compared" in str(found)


def test_another_object_is_another_extractor(package: Any) -> None:
    samples, reference = drawn(0, 30, 256), drawn(1, 30, 128)
    one, other = small(package), small(package)
    with torch.no_grad():
        other.one.weight.mul_(2)
    first = fid_and_is(samples, reference, extractor=one)
    assert fid_and_is(samples, reference, extractor=other).fid != pytest.approx(first.fid, rel=1e-2)
    assert fid_and_is(samples, reference, extractor=one) == first
    assert fid_and_is(samples, reference, extractor=one, fid_layer="logits").fid != pytest.approx(first.fid, rel=1e-2)
    assert fid_and_is(samples, samples, extractor=one).fid == pytest.approx(0, abs=1e-7)


def test_arguments_of_torch_fidelity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = StandIn()
    monkeypatch.setitem(sys.modules, "torch_fidelity", package)
    weights = tmp_path / "w.pth"
    torch.save({"w": torch.zeros(2)}, weights)
    found = fid_and_is(
        drawn(0, 12, 9), "cifar10-train", weights=weights, cache=tmp_path / "c", datasets=tmp_path / "d", device="cpu"
    )
    options = package.options
    assert (options["feature_extractor"], options["input2"], options["cuda"]) == (
        "inception-v3-compat",
        "cifar10-train",
        False,
    )
    assert (options["cache"], options["cache_root"]) == (True, str(tmp_path / "c"))
    assert (options["datasets_root"], options["datasets_download"]) == (str(tmp_path / "d"), True)
    assert options["feature_extractor_weights_path"] == str(weights)
    assert (options["fid"], options["isc"], options["isc_splits"], options["verbose"]) == (True, True, 10, False)
    kind = "inception-v3-compat"
    assert found == Fidelity(1.0, 2.0, 0.5, n=12, n_reference=50_000, extractor=kind, weights=str(weights))
    fid_and_is(drawn(0, 12, 9), drawn(0, 12, 9))
    assert (package.options["cache"], package.options["feature_extractor_weights_path"]) == (False, None)


def test_comparability_with_published_values() -> None:
    good = Fidelity(1.0, 2.0, 0.5, n=50_000, n_reference=10_000, extractor="inception-v3-compat")
    assert good.comparable
    assert str(good) == "FID 1.000, IS 2.000 +- 0.500 (n = 50,000)"
    assert not replace(good, n=10_000).comparable
    others: list[tuple[dict[str, Any], str]] = [
        ({"extractor": "vgg16"}, "features of vgg16"),
        ({"n_reference": 9_999}, "a reference of 9,999"),
        ({"n_reference": None}, "a reference of unknown size"),
        ({"weights": "mine.pth"}, "weights of mine.pth"),
        ({"fid_layer": "768"}, "layer 768"),
        ({"isc_layer": "logits"}, "layer logits"),
        ({"splits": 5}, "5 splits"),
    ]
    for other, remark in others:
        found = replace(good, **other)
        assert not found.comparable
        assert f"{remark}: not to be compared with published figures" in str(found)


def test_settings_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_fidelity", StandIn())
    found = fid_and_is(drawn(0, 12, 9), drawn(0, 12, 9), fid_layer="768", isc_layer="logits", splits=3)
    assert (found.n_reference, found.fid_layer, found.isc_layer, found.splits) == (12, "768", "logits", 3)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(ImportError, match=r"pip install 'tauleap\[fid\]'"):
        fid_and_is(drawn(0, 12, 256), drawn(1, 12, 256))


def test_with_a_torchvision_of_another_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch_fidelity.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.delitem(sys.modules, "torch_fidelity", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="torchvision does not fit this torch"):
        fid_and_is(drawn(0, 12, 256), drawn(1, 12, 256))


def test_invalid_input_raises(package: Any, tmp_path: Path) -> None:
    good, extractor = drawn(0, 12, 256), small(package)
    torch.save(print, tmp_path / "w.pth")  # a pickle that names a function
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: fid_and_is(good[:9], good), ValueError, "samples must be at least 10 pictures, got 9"),
        (lambda: fid_and_is(good, good[:1]), ValueError, "reference must be at least 2 pictures, got 1"),
        (lambda: fid_and_is(good, good / 255), TypeError, "reference must hold shades"),
        (lambda: fid_and_is(good, "no/such"), FileNotFoundError, "existing file or folder, got no/such"),
        (lambda: fid_and_is("no.npy", good), FileNotFoundError, r"existing file or folder, got no\.npy"),
        (lambda: fid_and_is(good, good, splits=0), ValueError, "splits must be"),
        (lambda: fid_and_is(good, good, batch_size=0), ValueError, "batch_size must be"),
        (lambda: fid_and_is(good, good, extractor=nn.Linear(1, 1)), TypeError, "FeatureExtractorBase, got Linear"),
        (lambda: fid_and_is(good, good, extractor=extractor, cache=tmp_path), ValueError, "by name"),
        (lambda: fid_and_is(good, good, weights=tmp_path / "no"), FileNotFoundError, "weights must be a file"),
        (lambda: fid_and_is(good, good, weights=tmp_path / "w.pth"), ValueError, "and nothing else"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()


def test_the_pictures_are_those_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    package = StandIn()
    monkeypatch.setitem(sys.modules, "torch_fidelity", package)
    samples = drawn(0, 12, 256)
    fid_and_is(samples, samples[:, :1])
    for place in range(12):
        assert torch.equal(package.options["input1"][place], torch.from_numpy(samples[place]))
        assert torch.equal(package.options["input2"][place], pictures(samples[:, :1])[place])
