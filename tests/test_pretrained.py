"""Models on disk: what is saved is what is loaded, and nothing else is."""

import hashlib
import json
import resource
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

import tauleap as tl
from tauleap import denoise, network, noise, pretrained
from tauleap.model import Model
from tauleap.pretrained import UnknownClassError, load, load_from_hub, push_to_hub
from tauleap.storage.config import IN_DENOISER, build, describe
from tauleap.storage.save import with_checksum

CYCLE = torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, -1.0]])

PROCESSES = [
    noise.Uniform(4, noise.Constant(0.3)),
    noise.Absorbing(4, noise.LogLinear(), mask=1),
    noise.BirthDeath(4, noise.Exponential(0.5, 100.0), rate=2.0),
    noise.Gaussian(4, noise.Exponential(5.0, 5.0), sigma_0=2.0, sigma_r=1.5),
    noise.RankOne(torch.tensor([0.1, 0.2, 0.3, 0.4]), noise.Cosine()),
    noise.RankOne(torch.tensor([0.1, 0.2, 0.7]), noise.Cosine(), data_states=torch.tensor([True, True, False])),
    noise.RankOne(torch.tensor([[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64), noise.LogLinear()),
    noise.Dense(CYCLE, noise.Constant(1.0), ordinal=True),
    noise.Dense(CYCLE, noise.Constant(1.0), prior=torch.full((3,), 1 / 3)),
]


def mlp_model(process: noise.ForwardProcess, **sizes) -> Model:
    mlp = network.ResidualMLP(process.num_states, (2,), width=4, hidden=4, time_size=4, time_width=4, **sizes)
    return Model(process, denoise.NetworkDenoiser(mlp), shape=(2,))


def assert_same(a: Model, b: Model) -> None:
    first, second = a.reverse.state_dict(), b.reverse.state_dict()
    assert list(first) == list(second)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
        assert value.dtype == second[name].dtype, name
    assert a.shape == b.shape
    assert repr(a.process) == repr(b.process)
    assert torch.equal(a.process.data_states, b.process.data_states)
    assert torch.equal(a.process.generator(), b.process.generator()) or a.process.prior().ndim > 1


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: type(process).__name__)
def test_every_process_comes_back(process: noise.ForwardProcess, tmp_path: Path) -> None:
    if process.prior().ndim > 1:
        a = mlp_model(process)
        b = load(a.save(tmp_path / "model"))
        assert torch.equal(a.process.prior(), b.process.prior())
        return
    a = mlp_model(process)
    b = load(a.save(tmp_path / "model"))
    assert_same(a, b)
    x = torch.tensor([[0, 1], [2, 0]])
    assert torch.equal(a.reverse.rates(x, 0.5), b.reverse.rates(x, 0.5))
    assert b.process.ordinal == a.process.ordinal


@pytest.mark.parametrize(
    "made",
    [
        network.ResidualMLP(5, (2, 2), width=4, hidden=4, depth=1, one_hot=True, mark_observed=True),
        network.SequenceTransformer(5, (3,), width=8, depth=1, heads=2, dropout=0.1, num_classes=3),
        network.SequenceTransformer(5, width=8, depth=1, heads=2),
        network.SequenceTransformer(5, (3,), width=8, depth=1, heads=2, plain=True, mark_observed=False),
        network.UNet(5, 1, width=4, multipliers=(1, 1), depth=1, attention_levels=(), outputs=5),
        network.MusicTransformer(5),
    ],
    ids=lambda made: type(made).__name__,
)
def test_every_network_comes_back(made: nn.Module, tmp_path: Path) -> None:
    a = Model(noise.Uniform(5, noise.Constant(1.0)), denoise.NetworkDenoiser(made))
    assert_same(a, load(a.save(tmp_path / "model")))


def test_the_truncated_logistic_comes_back(tmp_path: Path) -> None:
    unet = network.UNet(6, 1, width=4, multipliers=(1, 1), depth=1, attention_levels=())
    a = Model(noise.Uniform(6, noise.Constant(1.0)), denoise.TruncatedLogistic(unet, 6), shape=(1, 4, 4))
    b = load(a.save(tmp_path / "model"))
    assert_same(a, b)
    assert isinstance(b.denoiser, denoise.TruncatedLogistic)
    assert b.denoiser.num_states == 6


def test_double_precision_stays(tmp_path: Path) -> None:
    a = mlp_model(PROCESSES[0])
    a.denoiser.double()
    assert_same(a, load(a.save(tmp_path / "model")))


def test_compact_files_have_half_the_weights_and_are_float32_again(tmp_path: Path) -> None:
    law = torch.tensor([0.1, 0.2, 0.3, 0.4])
    a = mlp_model(noise.RankOne(law, noise.Cosine()))
    whole, compact = (a.save(tmp_path / str(flag), compact=flag) for flag in (False, True))
    stored = safetensors.torch.load_file(compact / "model.safetensors")
    assert {w.dtype for name, w in stored.items() if name.startswith("denoiser.")} == {torch.float16}
    assert (compact / "model.safetensors").stat().st_size < (whole / "model.safetensors").stat().st_size
    b = load(compact)
    assert torch.equal(a.process.prior(), b.process.prior())
    for one, other in zip(a.denoiser.parameters(), b.denoiser.parameters(), strict=True):
        assert other.dtype == torch.float32
        assert torch.equal(one.half().float(), other)
    assert_same(b, load(b.save(tmp_path / "again", compact=True)))


def test_compact_files_refuse_weights_that_16_bits_cannot_hold(tmp_path: Path) -> None:
    a = mlp_model(PROCESSES[0])
    next(a.denoiser.parameters()).data.fill_(1e5)
    with pytest.raises(ValueError, match=r"beyond 65504.*leave compact out"):
        a.save(tmp_path / "model", compact=True)
    assert not (tmp_path / "model").exists()


def test_compact_files_are_of_float32_only(tmp_path: Path) -> None:
    a = mlp_model(PROCESSES[0])
    a.denoiser.double()
    with pytest.raises(ValueError, match=r"needs weights in float32, got torch\.float64"):
        a.save(tmp_path / "model", compact=True)


def test_a_dtype_that_no_file_has_is_refused(tmp_path: Path) -> None:
    folder = mlp_model(PROCESSES[0]).save(tmp_path / "model", compact=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(with_checksum(config | {"dtype": "complex64"})))
    with pytest.raises(ValueError, match="entry 'dtype' must be \"float32\" or absent, got 'complex64'"):
        load(folder)


def test_public_names(tmp_path: Path) -> None:
    a = mlp_model(PROCESSES[0])
    assert tl.load(a.save(tmp_path / "model")).num_states == 4
    assert tl.Model is Model
    assert "Uniform" in repr(a)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return mlp_model(PROCESSES[4]).save(tmp_path / "model")


def test_two_files_and_no_pickle(saved: Path) -> None:
    assert sorted(path.name for path in saved.iterdir()) == ["config.json", "model.safetensors"]
    assert [path.name for path in saved.parent.iterdir()] == ["model"]
    config = json.loads((saved / "config.json").read_text())
    assert config["format"] == 1
    assert config["process"]["prior"] == {"tensor": "process.law"}
    assert safetensors.torch.load_file(saved / "model.safetensors")["process.law"].dtype == torch.float64


def test_saving_again_replaces(saved: Path) -> None:
    other = mlp_model(PROCESSES[0])
    other.save(saved)
    assert_same(other, load(saved))
    assert sorted(path.name for path in saved.iterdir()) == ["config.json", "model.safetensors"]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        ValueError, match="is not empty and does not hold a model of tauleap: write the name of a new folder"
    ):
        mlp_model(PROCESSES[0]).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_saving_over_a_file_or_on_a_full_disk_is_explained(saved: Path, tmp_path: Path) -> None:
    """No file may grow beyond 100 bytes, which a disk without space would do as well."""
    model, file, new = load(saved), tmp_path / "data.csv", tmp_path / "new"
    file.write_text("a,b\n")
    with pytest.raises(NotADirectoryError) as caught:
        model.save(file)
    assert str(caught.value) == f"{file} is a file: write the name of a folder for the model"
    assert file.read_text() == "a,b\n"
    before = (saved / "config.json").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        for folder in (new, saved):
            with pytest.raises(OSError, match=f"File too large, in {folder}: free some space"):
                model.save(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not new.exists()
    assert not list(tmp_path.rglob(".*.tmp"))
    assert (saved / "config.json").read_bytes() == before


def edit(folder: Path, **changes) -> None:
    """Change the configuration and its checksum, as somebody would who means harm."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(with_checksum(config | changes)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format 2"),
        ({"denoiser": {"class": "os.system", "command": "true"}}, "has the class 'os.system', allowed are Constant"),
        ({"denoiser": {"class": "NetworkDenoiser", "network": {"class": "Linear"}}}, r"load\(.*classes=\[Linear\]\)"),
        ({"process": {"class": "Constant", "beta": 1.0}}, "must describe a process and a denoiser"),
        ({"process": {"class": "Uniform", "num_states": 4}}, "does not fit its constructor"),
        (
            {"process": {"class": "RankOne", "prior": {"tensor": "process.none"}}},
            "refers to the tensor 'process.none', which the weights do not have",
        ),
        ({"weights_sha256": "0"}, "checksum differs"),
    ],
)
def test_a_configuration_that_was_tampered_with(saved: Path, changes: dict, message: str) -> None:
    edit(saved, **changes)
    with pytest.raises(ValueError, match=message):
        load(saved)


def test_a_configuration_that_lacks_something(saved: Path) -> None:
    (saved / "config.json").write_text('{"format": 1}')
    with pytest.raises(ValueError, match="the entries denoiser, process, shape, weights_sha256 are missing"):
        load(saved)
    (saved / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="not the configuration of a tauleap model"):
        load(saved)
    (saved / "config.json").write_text('{"form')
    with pytest.raises(ValueError, match="damaged: it is not JSON"):
        load(saved)


def test_weights_that_were_damaged(saved: Path) -> None:
    path = saved / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="checksum differs"):
        load(saved)


@pytest.mark.parametrize("change", ["extra", "missing", "shape"])
def test_weights_must_fit_strictly(saved: Path, change: str) -> None:
    path = saved / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    if change == "extra":
        weights["denoiser.network.more"] = torch.zeros(1)
    elif change == "missing":
        del weights["denoiser.network.output.bias"]
    else:
        weights["denoiser.network.output.bias"] = torch.zeros(3)
    safetensors.torch.save_file(weights, path)
    edit(saved, weights_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="weights do not fit the configuration: 'denoiser"):
        load(saved)


def test_no_model_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no model"):
        load(tmp_path)


class Table(nn.Module):
    """A user's own network: one table of logits for each state."""

    def __init__(self, num_states: int) -> None:
        super().__init__()
        self.config = {"num_states": num_states}
        self.logits = nn.Embedding(num_states, num_states)
        self.tied = self.logits.weight

    def forward(self, x, t):
        return self.logits(x)


def test_a_class_of_your_own(tmp_path: Path) -> None:
    a = Model(PROCESSES[0], denoise.NetworkDenoiser(Table(4)))
    folder = a.save(tmp_path / "model")
    call = f"tauleap.load({str(folder)!r}, classes=[Table])"
    with pytest.raises(UnknownClassError) as caught:
        load(folder)
    assert str(caught.value).endswith(f"import or define it, and write {call}")
    b = load(folder, classes=[Table])
    assert_same(a, b)
    assert b.denoiser.network.tied is b.denoiser.network.logits.weight


def test_names_that_are_taken(saved: Path) -> None:
    with pytest.raises(ValueError, match="tauleap has a class 'Uniform' too: rename yours"):
        load(saved, classes=[type("Uniform", (), {})])
    with pytest.raises(ValueError, match="two different classes have the name 'Table'"):
        load(saved, classes=[Table, type("Table", (), {})])
    for wrong in ([Table(4)], ["Table"]):
        with pytest.raises(TypeError, match="classes"):
            load(saved, classes=wrong)  # pyright: ignore[reportArgumentType]


def test_what_cannot_be_described() -> None:
    with pytest.raises(TypeError, match="x is a function, which cannot be saved"):
        describe(edit, "x")
    with pytest.raises(ValueError, match="must be finite"):
        describe(float("inf"), "x")
    assert build(describe([1, (True, None), "a", 0.5], "x"), {}, IN_DENOISER) == [1, [True, None], "a", 0.5]


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="side of shape"):
        Model(PROCESSES[0], denoise.NetworkDenoiser(Table(4)), shape=(0,))


class Hub:
    """Calls of the client of the hub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_repo(self, repository: str, *, private: bool, exist_ok: bool) -> str:
        assert exist_ok
        assert private
        return f"https://hub/{repository}"

    def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
        assert repo_id == "me/toy"
        assert commit_message
        Path(folder_path).rename(self.folder)


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up by a client that keeps the files here, down from the hub's own cache, with no network."""
    import huggingface_hub.constants

    revision = "0" * 40
    cache = tmp_path / "models--me--toy"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(revision)
    (cache / "snapshots").mkdir()
    a = mlp_model(PROCESSES[3])
    client = Hub(cache / "snapshots" / revision)
    assert push_to_hub(a, "me/toy", private=True, api=client) == "https://hub/me/toy"  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert_same(a, load_from_hub("me/toy"))
    assert_same(a, load("me/toy"))
    with pytest.raises(
        FileNotFoundError, match=r"'me/other' is neither a folder nor.*cannot be downloaded.*check the name"
    ):
        load("me/other")
    monkeypatch.chdir(tmp_path)
    mlp_model(PROCESSES[0]).save("me/toy")
    assert load("me/toy").num_states == 4
    assert isinstance(load("me/toy").process, noise.Uniform)
    assert pretrained.load_from_hub is load_from_hub


def test_without_the_client_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for ask in (
        lambda: load("me/toy"),
        lambda: load_from_hub("me/toy"),
        lambda: push_to_hub(mlp_model(PROCESSES[0]), "me/toy"),
    ):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'tauleap\[hub\]'"):
            ask()
