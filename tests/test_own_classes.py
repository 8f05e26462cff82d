"""Networks and processes of the user's own are trained, sampled, saved, resumed and loaded without registration."""

import copy
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import tauleap as tl
from tauleap.cli import main
from tauleap.pretrained import UnknownClassError
from tauleap.storage.config import IN_DENOISER, build, describe, own_classes
from tauleap.storage.layers import LAYERS

ROWS = torch.randint(3, (60, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 3)


class Cycle(tl.noise.ForwardProcess):
    """Every state jumps to the next one."""

    def generator(self) -> Tensor:
        eye = torch.eye(self.num_states, dtype=torch.float64)
        return eye.roll(1, dims=1) - eye


class OnlyX(nn.Module):
    """A network without time, made of torch's layers."""

    def __init__(self, states: int, width: int = 8, bias: bool = True) -> None:
        super().__init__()
        self.states, self._width = states, width
        self.layers = nn.Sequential(
            nn.Embedding(states, width), nn.Flatten(), nn.Linear(3 * width, 3 * states, bias=bias)
        )
        self.bias = self.layers[2].bias

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).reshape(*x.shape, self.states)


@dataclass
class Sizes:
    """Arguments of a network that come together."""

    states: int
    scale: float = 2.0


class Nested(nn.Module):
    """A network around another one, with arguments of several types."""

    def __init__(self, inner: nn.Module, sizes: Sizes, *, shape: tuple[int, ...], names: dict[str, int]) -> None:
        super().__init__()
        self.inner, self.sizes, self.shape, self.names = inner, sizes, shape, names
        assert isinstance(shape, tuple)
        self.by_time = nn.Linear(1, sizes.states)

    def forward(self, x: Tensor, t: Tensor, observed: Tensor | None = None) -> Tensor:
        return self.sizes.scale * self.inner(x) + self.by_time(t[:, None])[:, None]


def nested() -> Nested:
    return Nested(OnlyX(4), Sizes(4), shape=(3,), names={"a": 1})


def network(name: str) -> nn.Module:
    if name == "Sequential":
        return nn.Sequential(nn.Embedding(4, 8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
    return OnlyX(4) if name == "OnlyX" else nested()


@pytest.mark.parametrize(
    ("name", "classes"), [("Sequential", []), ("OnlyX", [OnlyX]), ("Nested", [Nested, OnlyX, Sizes])]
)
def test_a_network_of_your_own_from_fit_to_load(name: str, classes: list[type], tmp_path: Path) -> None:
    run, saved = tmp_path / "run", tmp_path / "saved"
    model = tl.fit(ROWS, network=network(name), steps=3, out=run, progress=False)
    again = tl.fit(ROWS, network=network(name), steps=5, out=run, progress=False)
    assert (model.about["steps_trained"], again.about["steps_trained"]) == (3, 5)
    assert torch.isfinite(torch.tensor(again.bits_per_dim(ROWS[:4], seed=0).value))
    filled = again.complete(ROWS[:4], observed=torch.arange(3) < 2, steps=4, seed=0)
    assert torch.equal(filled[:, :2], ROWS[:4, :2])
    again.save(saved)
    for folder in (run, saved):
        loaded = tl.load(folder, classes=classes)
        assert torch.equal(loaded.sample(8, steps=4, seed=0), again.sample(8, steps=4, seed=0))
        if classes:
            with pytest.raises(UnknownClassError) as caught:
                tl.load(folder)
            listed = ", ".join(cls.__name__ for cls in classes)
            assert str(caught.value).endswith(f"write tauleap.load({str(folder)!r}, classes=[{listed}])")


def test_a_process_of_your_own_from_fit_to_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    cycle = Cycle(3, tl.noise.Constant(8.0))
    tl.fit(ROWS, process=cycle, steps=3, out=run, progress=False)
    model = tl.fit(ROWS, process=cycle, steps=5, out=run, progress=False)
    loaded = tl.load(run, classes=[Cycle])
    assert isinstance(loaded.process, Cycle)
    assert torch.equal(loaded.process.generator(), cycle.generator())
    assert torch.equal(loaded.sample(8, steps=4, seed=0), model.sample(8, steps=4, seed=0))
    assert loaded.bits_per_dim(ROWS[:4], seed=0).value == model.bits_per_dim(ROWS[:4], seed=0).value

    capsys.readouterr()
    assert main(["sample", str(run), "-n", "2", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"in Python write tauleap.load({str(run)!r}, classes=[Cycle])" in error
    assert not (tmp_path / "out").exists()


class Forgetful(nn.Module):
    """It does not hold its argument."""

    def __init__(self, states: int, depth: int = 1) -> None:
        super().__init__()
        self.states = states
        self.table = nn.Embedding(states, states)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.table(x)


class Doubled(nn.Module):
    """Its attribute is not what it was given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = 2 * width
        self.table = nn.Sequential(nn.Embedding(4, self.width), nn.Linear(self.width, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x)


class Unregistered(nn.Module):
    """It has numbers that are neither arguments nor weights."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.randn(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.table[x]


class Activated(nn.Module):
    """One of its arguments is a function."""

    def __init__(self, activation) -> None:
        super().__init__()
        self.activation = activation
        self.table = nn.Embedding(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.table(x))


class Weightless(nn.Module):
    """It has nothing to learn."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(x, 4).float()


class Variadic(nn.Module):
    """Its arguments have no names."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.table = nn.Embedding(sizes[0], sizes[1])

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x)


class KeywordOnly(nn.Module):
    """It does not hold its arguments."""

    def __init__(self, *, states: int, depth: int) -> None:
        super().__init__()
        self.table = nn.Sequential(nn.Embedding(states, 8), *(nn.Linear(8, 8) for _ in range(depth)), nn.PReLU())
        self.last = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, states)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.head(self.last(self.table(x)))


NOT_REBUILDABLE = {
    "Forgetful": (lambda: Forgetful(4), r'no attribute \'depth\'.*self.config = {"states": states, "depth": depth}'),
    "Doubled": (lambda: Doubled(4), "size mismatch|'width' has another value after it is rebuilt"),
    "Unregistered": (Unregistered, "its predictions change when it is rebuilt.*register_buffer"),
    "Activated": (lambda: Activated(torch.relu), "activation is a builtin.*self.config = "),
    "Variadic": (lambda: Variadic(4, 4), r"takes \*sizes: name the arguments of Variadic.__init__ one by one"),
    "KeywordOnly": (lambda: KeywordOnly(states=4, depth=2), "no attribute 'states'.*self.config = "),
}


@pytest.mark.parametrize("name", NOT_REBUILDABLE)
def test_any_network_is_trained_and_saved_and_loaded_as_an_instance(name: str, tmp_path: Path) -> None:
    build, why = NOT_REBUILDABLE[name]
    run, saved, first = tmp_path / "run", tmp_path / "saved", build()
    tl.fit(ROWS, network=first, steps=2, out=run, progress=False)
    model = tl.fit(ROWS, network=first, steps=3, out=run, progress=False)
    line = next(line for line in model.about["data"] if line.startswith("network: "))
    assert re.search(why, line)
    assert "\n" not in line
    assert line.endswith(f"write tauleap.load({str(run)!r}, network={name}(...))")
    filled = model.complete(ROWS[:4], observed=torch.arange(3) < 2, steps=4, seed=0)
    assert torch.equal(filled[:, :2], ROWS[:4, :2])
    assert model.bits_per_dim(ROWS[:4], seed=0).value > 0
    model.save(saved)
    samples = model.sample(8, steps=4, seed=0)
    for folder in (run, saved):
        with pytest.raises(UnknownClassError) as caught:
            tl.load(folder)
        assert str(caught.value).endswith(f"write tauleap.load({str(folder)!r}, network={name}(...))")
        other = copy.deepcopy(first) if name == "Unregistered" else build()
        loaded = tl.load(folder, network=other)
        assert loaded.denoiser.network is other
        assert torch.equal(loaded.sample(8, steps=4, seed=0), samples)
        loaded.save(tmp_path / "again")
        assert "not_rebuildable" in (tmp_path / "again" / "config.json").read_text()


def test_a_network_that_does_not_fit_is_refused_in_one_sentence(tmp_path: Path) -> None:
    folder = tl.fit(ROWS, network=Variadic(4, 4), steps=1, progress=False).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"does not fit the given network.*the same arguments as for training"):
        tl.load(folder, network=Variadic(4, 5))
    with pytest.raises(TypeError, match="Variadic"):
        tl.load(folder, network=cast(Any, Variadic))
    with pytest.raises(TypeError, match="ForwardProcess"):
        tl.load(folder, process=cast(Any, nn.Linear(1, 1)))
    with pytest.raises(TypeError, match=r"got a Variadic, an instance: write Variadic$"):
        own_classes(cast(Any, iter([Variadic(4, 4)])))


def test_a_process_that_cannot_be_rebuilt_is_given_to_load(tmp_path: Path) -> None:
    class Turning(Cycle):
        def __init__(self, *, number: int, beta: float) -> None:
            super().__init__(number, tl.noise.Constant(beta))

    process = Turning(number=3, beta=8.0)
    model = tl.fit(ROWS, process=process, network=Variadic(3, 3), steps=2, progress=False)
    folder = model.save(tmp_path / "model")
    with pytest.raises(UnknownClassError, match=r"network=Variadic\(...\), process=Turning\(...\)\)$"):
        tl.load(folder)
    loaded = tl.load(folder, process=Turning(number=3, beta=8.0), network=Variadic(3, 3))
    assert torch.equal(loaded.sample(8, steps=4, seed=0), model.sample(8, steps=4, seed=0))
    assert isinstance(loaded.process, Turning)


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda net: torch.compile(net, backend="eager")])
def test_wrappers_of_torch_are_taken_off(wrap, tmp_path: Path) -> None:
    process, layers = tl.noise.Uniform(3, tl.noise.Constant(5.0)), nn.Sequential(nn.Embedding(3, 8), nn.Linear(8, 3))
    plain = tl.Model(process, tl.denoise.NetworkDenoiser(layers), shape=(3,))
    model = tl.Model(process, tl.denoise.NetworkDenoiser(wrap(layers)), shape=(3,))
    model.save(tmp_path / "model")
    loaded = tl.load(tmp_path / "model")
    assert torch.equal(loaded.sample(8, steps=4, seed=0), plain.sample(8, steps=4, seed=0))
    assert torch.equal(model.sample(8, steps=4, seed=0), plain.sample(8, steps=4, seed=0))
    fitted = tl.fit(ROWS, process=process, network=wrap(layers), steps=2, progress=False)
    assert type(fitted.denoiser.network) is nn.Sequential
    again = tl.load(tmp_path / "model", network=wrap(copy.deepcopy(layers)))
    assert torch.equal(again.sample(8, steps=4, seed=0), plain.sample(8, steps=4, seed=0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: OnlyX(3), r"OnlyX cannot be evaluated.*states 0..3 .*state 3 is the mask of Absorbing"),
        (lambda: nn.Sequential(nn.Embedding(4, 8), nn.LazyLinear(4)), "Sequential has lazy layers.*call it once"),
        (lambda: nn.Embedding(4, 4).requires_grad_(False), "all weights of the network Embedding are frozen"),
        (Weightless, "the network Weightless has no weights to train"),
        (lambda: nn.Sequential(nn.Embedding(4, 3)), r"returns logits of shape \(2, 3, 3\): .*\(batch, 3, 4\)"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_training(given, message: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        tl.fit(ROWS, network=given(), minutes=60.0, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_network_without_the_mask_is_refused_however_many_states_there_are(tmp_path: Path) -> None:
    rows = torch.arange(20).repeat(4)[:, None]  # two rows of one site show two of the 21 states
    with pytest.raises(ValueError, match=r"cannot be evaluated.*state 20 is the mask of Absorbing"):
        tl.fit(rows, network=nn.Sequential(nn.Embedding(20, 21)), steps=1, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_process_with_states_that_a_table_has_not_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["x", "y", "z"] * 20, "b": ["u", "v", "w"] * 20})
    with pytest.raises(ValueError, match=r"has 5 states of data at site \(0,\), but the data format \(table\) has 3"):
        tl.fit(frame, process=Cycle(5, tl.noise.Constant(8.0)), steps=1, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    model = tl.fit(frame, process=Cycle(3, tl.noise.Constant(8.0)), steps=1, progress=False)
    assert set(model.sample(9, steps=2, seed=0)["a"]) <= {"x", "y", "z"}


def test_a_config_of_the_class_is_used() -> None:
    class Configured(Forgetful):
        @property
        def config(self) -> dict[str, int]:
            return {"states": self.states, "depth": 1}

    model = tl.fit(ROWS, network=Configured(4), steps=1, progress=False)
    assert describe(model.denoiser, "denoiser")["network"] == {"class": "Configured", "states": 4, "depth": 1}


def test_weights_that_do_not_fit_a_class_of_your_own_are_refused(tmp_path: Path) -> None:
    from tauleap.storage.save import with_checksum

    folder = tl.Model(tl.noise.Uniform(4, tl.noise.Constant(1.0)), tl.denoise.NetworkDenoiser(OnlyX(4))).save(
        tmp_path / "model"
    )
    config = json.loads((folder / "config.json").read_text())
    config["denoiser"]["network"]["width"] = 9
    (folder / "config.json").write_text(json.dumps(with_checksum(config)))
    with pytest.raises(ValueError, match="weights do not fit the configuration: 'denoiser"):
        tl.load(folder, classes=[OnlyX])
    config["denoiser"]["network"]["more"] = 1
    (folder / "config.json").write_text(json.dumps(with_checksum(config)))
    with pytest.raises(ValueError, match="configuration of OnlyX does not fit its constructor"):
        tl.load(folder, classes=[OnlyX])
    config["process"] = {"class": "torch.nn.Linear", "in_features": 10**6, "out_features": 10**6}
    (folder / "config.json").write_text(json.dumps(with_checksum(config | {"denoiser": {"class": "Cosine"}})))
    with pytest.raises(ValueError, match=r"torch.nn.Linear', allowed are"):
        tl.load(folder)


LAYERS_OF_TORCH = [
    *(nn.Linear(4, 4, bias=False), nn.Bilinear(2, 3, 4), nn.Embedding(5, 2), nn.EmbeddingBag(5, 2), nn.Identity()),
    *(nn.Flatten(), nn.Unflatten(1, (2, 2)), nn.Conv1d(4, 4, 3, bias=False), nn.Conv2d(4, 4, 3, padding="same")),
    *(nn.Conv3d(4, 4, 3), nn.ConvTranspose1d(4, 4, 3, output_padding=0, stride=2), nn.ConvTranspose2d(4, 4, 3)),
    *(nn.LayerNorm(4), nn.RMSNorm(4, eps=0.1), nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.InstanceNorm2d(4)),
    *(nn.Dropout(0.3), nn.Dropout1d(), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(), nn.PReLU(4), nn.ReLU6()),
    *(nn.ReLU(), nn.LeakyReLU(0.3), nn.GELU("tanh"), nn.SiLU(), nn.ELU(), nn.CELU(2.0), nn.Mish(), nn.Softplus()),
    *(nn.Sigmoid(), nn.Tanh(), nn.Hardswish(), nn.Hardtanh(-2.0, 2.0), nn.Softmax(-1), nn.LogSoftmax(-1), nn.GLU()),
    *(nn.MaxPool1d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool1d(2), nn.Upsample(scale_factor=2.0), nn.PixelShuffle(2)),
    *(nn.LSTM(4, 4, 2, proj_size=2), nn.GRU(4, 4, bidirectional=True), nn.RNN(4, 4, nonlinearity="relu")),
    *(nn.MultiheadAttention(4, 2, bias=False), nn.MultiheadAttention(4, 2, add_bias_kv=True, batch_first=True)),
    *(nn.TransformerEncoderLayer(4, 2, 8), nn.TransformerEncoderLayer(4, 2, 8, 0.2, "gelu", norm_first=True)),
]


@pytest.mark.parametrize("layer", LAYERS_OF_TORCH, ids=lambda layer: type(layer).__name__)
def test_layers_of_torch_come_back(layer: nn.Module) -> None:
    described = json.loads(json.dumps(describe(nn.Sequential(layer), "x")))
    rebuilt = build(described, {}, IN_DENOISER)
    assert repr(rebuilt) == repr(nn.Sequential(layer))
    shapes = [{name: tensor.shape for name, tensor in each.state_dict().items()} for each in (rebuilt[0], layer)]
    assert shapes[0] == shapes[1]
    assert describe(rebuilt, "x") == describe(nn.Sequential(layer), "x")


def test_only_layers_of_torch_are_admitted_by_name() -> None:
    assert len(LAYERS) > 100
    for name, layer in LAYERS.items():
        assert layer.__module__.startswith("torch.nn.modules.")
        assert name not in ("torch.nn.Module", "torch.nn.ModuleList", "torch.nn.LazyLinear")
        assert name == f"torch.nn.{layer.__name__}"
