"""Model folders and runs that were damaged, or made to do harm: refused with one sentence, at once, in no memory."""

import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap import _shipped, cli, denoise, network, noise
from tauleap._files import manifest
from tauleap._files.printable import printable
from tauleap.cli.blocks import Blocks
from tauleap.data import Format, format_from_config
from tauleap.data.array.format import ArrayFormat
from tauleap.data.text import TextFormat
from tauleap.evaluate import pictures
from tauleap.fitting.measure import _best
from tauleap.model import Model
from tauleap.pretrained import builtin_models
from tauleap.pretrained.loading import rewrite_config
from tauleap.storage.save import with_checksum
from tauleap.training.state import from_bytes


class HangError(BaseException):
    """Raised in a call that blocks; not an Exception, so that no handler of the call turns it into a refusal."""


@contextmanager
def at_once(seconds: int) -> Iterator[None]:
    """Interrupt a block that takes longer."""

    def stop(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    left = signal.alarm(seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.alarm(left)


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    """A call that blocks on a FIFO must not block the tests."""
    with at_once(60):
        yield


def small_model() -> Model:
    mlp = network.ResidualMLP(4, (2,), width=4, hidden=4, depth=1, time_size=4, time_hidden=4, time_width=4)
    process = noise.Gaussian(4, noise.Exponential(5.0, 5.0), sigma_0=2.0, sigma_r=1.5)
    about = {"data": ["points"], "step": 30, "bits_per_dim": {"value": 1.25, "stderr": 0.5, "n": 16}}
    return Model(process, denoise.NetworkDenoiser(mlp), shape=(2,), about=about)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return small_model().save(tmp_path / "model")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "table.csv").write_text("a,b\n" + "".join(f"{i % 2},{i % 3}\n" for i in range(24)))
    data = tl.data.open_data(folder / "table.csv")
    tl.fit(data, steps=2, out=folder / "run", device="cpu", progress=False)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copy(trained / "table.csv", tmp_path)
    return Path(shutil.copytree(trained / "run", tmp_path / "run", symlinks=True))


def resume(run: Path) -> int:
    options = ["--steps", "4", "--minutes", "0.05", "--out", str(run), "--device", "cpu"]
    return cli.main(["train", str(run.parent / "table.csv"), *options])


def refused(folder: Path, words: str) -> None:
    with pytest.raises((ValueError, OSError), match=words) as raised:
        tl.load(folder)
    message = str(raised.value)
    assert str(folder) in message
    assert printable(message) == message
    assert "weights_only" not in message


def edit(folder: Path, change: Callable[[Any], Any]) -> None:
    """Change the configuration and make its checksum right again."""
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(with_checksum(config)))


def seal(checkpoint: Path) -> None:
    """Make the checksums of a checkpoint right again."""
    files = {path.name: path.read_bytes() for path in checkpoint.iterdir() if path.name != "manifest.json"}
    (checkpoint / "manifest.json").write_bytes(manifest.to_bytes(files))


def digit_changes(text: str) -> Iterator[str]:
    """Every text in which one digit is another one."""
    for place in re.finditer(r"\d", text):
        other = str((int(place.group()) + 1) % 10)
        yield text[: place.start()] + other + text[place.end() :]


def test_every_changed_digit_of_a_configuration_is_refused(model: Path) -> None:
    path = model / "config.json"
    text = path.read_text()
    changes = list(digit_changes(text))
    assert len(changes) > 100
    for changed in changes:
        path.write_text(changed)
        with pytest.raises((ValueError, OSError), match=r"model"):
            tl.load(model)
    path.write_text(text)
    tl.load(model)


def test_every_changed_digit_of_a_checkpoint_is_refused(run: Path) -> None:
    for path in (run / "latest" / "config.json", run / "latest" / "manifest.json"):
        text = path.read_text()
        for changed in digit_changes(text):
            path.write_text(changed)
            with pytest.raises((ValueError, OSError), match="run"):
                tl.load(run)
        path.write_text(text)
    tl.load(run)


def test_a_configuration_without_its_checksum_is_compared_with_the_manifest(run: Path) -> None:
    config = json.loads((run / "latest" / "config.json").read_text())
    del config["config_sha256"]
    (run / "latest" / "config.json").write_text(json.dumps(config, indent=2))
    refused(run, "config.json has .* bytes instead of")
    seal(run / "latest")
    tl.load(run)


def test_no_changed_character_changes_a_model(model: Path) -> None:
    """What still loads is the same configuration: white space, and other ways to write the same."""
    path = model / "config.json"
    text = path.read_text()
    accepted = 0
    for at in range(0, len(text), 3):
        path.write_text(text[:at] + ("x" if text[at] != "x" else "y") + text[at + 1 :])
        try:
            tl.load(model)
        except (ValueError, OSError):
            continue
        accepted += 1
        assert json.loads(path.read_text()) == json.loads(text)
    assert accepted < len(text) / 20


def test_models_that_were_saved_before_still_load(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    del config["config_sha256"]
    (model / "config.json").write_text(json.dumps(config))
    before = tl.load(model)
    rewrite_config(model)
    assert json.loads((model / "config.json").read_text()) == with_checksum(config)
    for name, value in tl.load(model).reverse.state_dict().items():
        assert torch.equal(value, before.reverse.state_dict()[name])


@pytest.mark.parametrize("name", builtin_models())
def test_models_of_the_package_have_checksums(name: str) -> None:
    config = json.loads((_shipped.MODELS / name / "config.json").read_text())
    assert config == with_checksum(config)
    assert "config_sha256" in config


def test_a_field_that_is_not_known_is_refused(model: Path) -> None:
    """As the checksum would be whose own name has changed."""
    text = (model / "config.json").read_text()
    (model / "config.json").write_text(text.replace("config_sha256", "config_sha257"))
    refused(model, "an unknown entry 'config_sha257'")


def test_a_damaged_report_is_left_out(run: Path) -> None:
    assert tl.load(run).about["step"] == 2
    text = (run / "report.json").read_text()
    (run / "report.json").write_text(text.replace('"step": 2', '"step": 3'))
    assert tl.load(run).about == {}
    (run / "report.json").unlink()
    os.mkfifo(run / "report.json")
    assert tl.load(run).about == {}


def test_a_checkpoint_is_not_saved_over(run: Path) -> None:
    content = (run / "latest" / "config.json").read_bytes()
    with pytest.raises(ValueError, match="is a checkpoint of a run"):
        small_model().save(run / "latest")
    assert (run / "latest" / "config.json").read_bytes() == content


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["fifo", "device", "outside", "folder", "sparse"])
def test_names_that_lead_elsewhere(model: Path, name: str, kind: str) -> None:
    good = model.parent / name
    (model / name).rename(good)
    if kind == "fifo":
        os.mkfifo(model / name)
    elif kind == "folder":
        (model / name).mkdir()
    elif kind == "sparse":
        with (model / name).open("wb") as file:
            file.truncate(2**40)
    else:
        (model / name).symlink_to("/dev/zero" if kind == "device" else good)
    words = {"fifo": "is a FIFO", "folder": "is a folder", "outside": "put a copy", "device": "(outside|is a device)"}
    refused(model, words.get(kind, "(has 1,099,511,627,776 bytes|is damaged)"))


@pytest.mark.parametrize("name", ["manifest.json", "config.json"])
def test_a_fifo_in_a_run_is_put_aside(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = (run / "latest").resolve()
    (checkpoint / name).unlink()
    os.mkfifo(checkpoint / name)
    refused(run, "is a FIFO")
    assert resume(run) in (0, 2)
    assert "is a FIFO" in capsys.readouterr().out


def test_a_fifo_instead_of_the_list_of_samples(run: Path) -> None:
    """The folder is not known as ours then: it stays, and the samples are written beside it."""
    assert resume(run) == 0
    listed = run / "samples" / ".tauleap-samples.json"
    listed.unlink()
    os.mkfifo(listed)
    with at_once(10):
        assert resume(run) == 0
    assert listed.is_fifo()
    assert (run / "samples-2" / listed.name).is_file()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda part: (part.unlink(), os.mkfifo(part)), "is a FIFO"),
        (lambda part: (part.unlink(), part.symlink_to("/etc/passwd")), "outside"),
        (lambda part: part.write_bytes(b""), "cannot be read"),
        (lambda part: part.write_bytes(part.read_bytes()[:-1]), "cannot be read"),
        (lambda part: np.save(part, np.zeros((3, 2))), "whole numbers"),
        (lambda part: np.save(part, np.zeros((3, 5), dtype=np.uint8)), r"shape \(3, 2\)"),
        (lambda part: np.save(part, np.full((3, 2), 200)), "200"),
        (lambda part: part.write_bytes(part.read_bytes().replace(b"(3, 2)", b"(3, 9999999999999)")), "cannot be read"),
        (lambda part: part.write_bytes(part.read_bytes().replace(b"(3, 2), }        ", b"(3, 99999999), } ")), "bytes"),
    ],
    ids=["fifo", "link", "empty", "cut", "dtype", "shape", "states", "header", "size"],
)
def test_parts_of_samples(
    model: Path,
    damage: Callable[[Path], object],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = ["sample", model, "-n", 6, "--batch-size", 3, "--steps", 2, "--out", model.parent / "s"]
    with monkeypatch.context() as patch:
        patch.setattr(Blocks, "missing", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli.main([*map(str, request)]) == 130
    part = model.parent / "s" / ".parts" / "00000000.npy"
    damage(part)
    capsys.readouterr()
    with at_once(10):
        assert cli.main([*map(str, request)]) == 2
    error = capsys.readouterr().err
    assert re.search(words, error)
    assert str(part) in error
    assert "remove it and run the same command again" in error


def test_a_fifo_instead_of_the_request_of_samples(tmp_path: Path) -> None:
    """It may be replaced after the folder was listed."""
    (tmp_path / ".parts").mkdir()
    os.mkfifo(tmp_path / "request.json")
    with at_once(10):
        assert not pictures._finished(tmp_path / "request.json")


def test_a_fifo_instead_of_the_held_out_figures(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "validation.csv")
    with at_once(10):
        assert _best(tmp_path, tmp_path / "step-00000003") == tmp_path / "step-00000003"


@pytest.mark.parametrize("name", ["h", "m", "configuration", "x" * 200])
def test_file_and_remedy_are_named_whatever_the_folder_is_called(
    run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The letters of a short name occur in every sentence."""
    monkeypatch.chdir(run.parent)
    checkpoint = shutil.copytree((run / "latest").resolve(), name)
    config = Path(checkpoint, "config.json").read_text()
    Path(checkpoint, "config.json").write_text(next(digit_changes(config)))
    with pytest.raises(ValueError, match="checksum") as raised:
        tl.load(checkpoint)
    assert str(raised.value).startswith(f"{name}/config.json ")
    assert str(raised.value).endswith(": get another copy of the model, or train it again")
    shutil.rmtree(checkpoint)
    model = small_model().save(name)
    edit(model, lambda config: config.update(shape=[-3]))
    with pytest.raises(ValueError, match="a side of shape must be a whole number >= 1, got -3") as raised:
        tl.load(model)
    assert str(raised.value).startswith(f"{model}/config.json cannot be read: ")
    assert str(raised.value).endswith(": get another copy of the model, or train it again")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(files=3),
        lambda found: found.pop("files"),
        lambda found: found["files"].pop("config.json"),
        lambda found: found["files"]["config.json"].update(bytes=3),
        lambda found: found["files"]["config.json"].update(bytes="3"),
        lambda found: found.update(format=2),
    ],
)
@pytest.mark.parametrize("sealed", [True, False])
def test_manifests(run: Path, change: Callable[[Any], object], sealed: bool) -> None:
    path = (run / "latest" / "manifest.json").resolve()
    listed = json.loads(path.read_bytes())
    change(listed)
    if sealed and "files" in listed:
        listed["sha256"] = manifest._digest(listed["format"], listed["files"])
    path.write_text(json.dumps(listed))
    with pytest.raises(ValueError, match=r"step-00000002/(manifest|config)\.json (is|has) ") as raised:
        tl.load(run)
    remedies = "(get another copy of the model, or train it again|install the version of tauleap that wrote it)"
    assert re.search(f": {remedies}$", str(raised.value))
    assert len(re.findall(remedies, str(raised.value))) == 1


def test_the_latest_checkpoint_must_be_in_the_run(run: Path) -> None:
    """A link that leaves the run is not followed, whatever it leads to."""
    for number, checkpoint in enumerate(sorted(run.glob("step-*"))):
        outside = checkpoint.rename(run.parent / f"elsewhere-{number}")
    (run / "latest").unlink()
    (run / "latest").symlink_to(outside)
    refused(run, "holds no model")
    tl.load(outside)


def test_a_snapshot_of_the_hub_has_links_to_blobs(model: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--me--toy" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--me--toy" / "blobs").mkdir()
    for path in model.iterdir():
        blob = tmp_path / "models--me--toy" / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    assert tl.load(snapshot).num_states == 4


@pytest.fixture
def little_memory() -> Iterator[None]:
    """No more than another gigabyte of address space."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("value", [10**6, 10**9, 2**62, 2**63, 0, -1, 1.5, "a", None, [], {}, [[1]], {"class": []}])
@pytest.mark.parametrize("name", ["width", "depth", "num_states", "shape", "time_size"])
def test_sizes_that_the_weights_do_not_have(model: Path, name: str, value: object) -> None:
    edit(model, lambda config: config["denoiser"]["network"].update({name: value}))
    refused(model, "model")


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("value", [10**5, 10**9, 2**63, 0, -1, None, "a", [4], {"tensor": []}, {"tensor": "no"}])
def test_processes_that_no_machine_has_memory_for(model: Path, value: object) -> None:
    edit(model, lambda config: config["process"].update(num_states=value))
    refused(model, "model")


@pytest.mark.parametrize("shape", [[2**31], [3], [2, 2], [1, 2]])
def test_samples_of_another_shape_than_the_network(model: Path, shape: list[int]) -> None:
    edit(model, lambda config: config.update(shape=shape))
    refused(model, "the shape of a sample is .*, but that of its network is")


def test_samples_with_more_sites_than_any_data(tmp_path: Path) -> None:
    """A U-Net has no shape of its own."""
    tl.load("mnist-small").save(tmp_path / "model")
    edit(tmp_path / "model", lambda config: config.update(shape=[1, 2**13, 2**13]))
    refused(tmp_path / "model", "must have <= 16,777,216 sites, got 67,108,864")


def test_a_process_of_other_states_than_the_network(model: Path) -> None:
    edit(model, lambda config: config["process"].update(num_states=5000))
    refused(model, "is 5,000, but num_states of the denoiser")


def test_nested_configurations(model: Path) -> None:
    text = (model / "config.json").read_text()
    (model / "config.json").write_text(text.replace('"points"', "[" * 10**5 + "]" * 10**5))
    refused(model, "nested more than 50 deep")


def header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.update(shape=[10**12]),
        lambda entry: entry.update(shape=[2**62, 4]),
        lambda entry: entry.update(shape=[-1]),
        lambda entry: entry.update(shape=None),
        lambda entry: entry.update(dtype="F7"),
        lambda entry: entry.update(dtype=[]),
        lambda entry: entry.update(data_offsets=[0, 2**63]),
        lambda entry: entry.update(data_offsets=[0]),
        lambda entry: entry.update(data_offsets=True),
        lambda entry: entry.clear(),
    ],
)
def test_headers_of_weights(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    header, numbers = header_of((model / "model.safetensors").read_bytes())
    change(header["denoiser.network.output.bias"])
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text + numbers
    (model / "model.safetensors").write_bytes(content)
    edit(model, lambda config: config.update(weights_sha256=hashlib.sha256(content).hexdigest()))
    refused(model, "model.safetensors is damaged: .*get another copy")


@pytest.mark.parametrize("length", [2**64 - 1, 2**40, 0, 5])
def test_lengths_of_headers(model: Path, length: int) -> None:
    content = length.to_bytes(8, "little") + (model / "model.safetensors").read_bytes()[8:]
    (model / "model.safetensors").write_bytes(content)
    refused(model, "model.safetensors is damaged")


STATES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "list": lambda state: [state],
    "no weights": lambda state: {key: value for key, value in state.items() if key != "weights"},
    "no moments": lambda state: {key: value for key, value in state.items() if key != "optimizer"},
    "no losses": lambda state: {key: value for key, value in state.items() if key != "pending"},
    "format": lambda state: state | {"format": 7},
    "weights": lambda state: state | {"weights": {"a": torch.zeros(1)}},
    "many numbers": lambda state: state | {"rng": {"cpu": torch.zeros(1).expand(10**6, 10**6)}},
    "random numbers": lambda state: state | {"rng": {"cpu": torch.zeros(1, 3)}},
    "pending": lambda state: state | {"pending": {"loss": 3}},
    "moments": lambda state: state | {"optimizer": {"state": {"x": {"step": torch.zeros(2)}}, "param_groups": []}},
    "hyperparameters": lambda state: state | {"optimizer": state["optimizer"] | {"param_groups": None}},
    "a flag": lambda state: with_setting(state, amsgrad=torch.zeros(0)),
    "another setting": lambda state: with_setting(state, betas=(0.5, 0.5)),
    "settings": lambda state: state | {"optimizer": state["optimizer"] | {"param_groups": [7]}},
}


def with_setting(state: dict[str, Any], **changed: object) -> dict[str, Any]:
    """The state with another setting of its optimizer."""
    (group,) = state["optimizer"]["param_groups"]
    return state | {"optimizer": state["optimizer"] | {"param_groups": [group | changed]}}


@pytest.mark.parametrize("change", STATES.values(), ids=STATES.keys())
def test_states_of_runs(run: Path, change: Callable[[Any], Any], capsys: pytest.CaptureFixture[str]) -> None:
    path = (run / "latest").resolve() / "state.pt"
    buffer = io.BytesIO()
    torch.save(change(torch.load(path, weights_only=True)), buffer)
    path.write_bytes(buffer.getvalue())
    seal(path.parent)
    assert resume(run) == 2
    printed = capsys.readouterr().err.splitlines()[-1]
    assert printed.startswith("tauleap: error: ")
    assert str(path.parent) in printed
    assert "weights_only" not in printed


class Harm:
    """A pickle that would run code."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.system, ("true",)


def test_no_advice_to_run_code(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"format": 1, "weights": Harm()}, buffer)
    with pytest.raises(ValueError, match="it must hold tensors and plain values") as raised:
        from_bytes(buffer.getvalue(), tmp_path / "state.pt")
    assert "weights_only" not in str(raised.value)


def test_a_list_that_holds_itself(tmp_path: Path) -> None:
    state: dict[str, Any] = {"format": 1, "rng": {}}
    state["rng"]["cpu"] = [state]
    buffer = io.BytesIO()
    torch.save(state, buffer)
    assert from_bytes(buffer.getvalue(), tmp_path / "state.pt")["format"] == 1


def test_an_archive_that_unpacks_to_more_than_it_has(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    with pytest.raises(ValueError, match="unpacks to 10,000,000 bytes"):
        from_bytes(buffer.getvalue(), tmp_path / "state.pt")


def test_recipes_of_runs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"[" * 10**5, b"[]", b'{"recipe": 3, "versions": {}}'):
        (run / "latest" / "recipe.json").write_bytes(content)
        seal(run / "latest")
        assert resume(run) == 2
        assert "recipe.json is damaged" in capsys.readouterr().err


def test_nothing_that_a_model_says_reaches_the_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = small_model()
    model.about["data"] = ["\x1b]0;title\x07 points\r"]
    folder = model.save(tmp_path / "m\x1b[31m")
    assert cli.main(["info", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b]0;title\\x07 points\\r" in printed
    assert printable(printed, lines=True) == printed
    edit(folder, lambda config: config["process"].update({"\x1b[2J": 1}))
    assert cli.main(["info", str(folder)]) == 2
    error = capsys.readouterr().err
    assert printable(error, lines=True) == error


def test_a_card_of_another_type(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(model, lambda config: config["about"].update(step="many", data={"a": 1}, bits_per_dim=[1]))
    assert cli.main(["info", str(model)]) == 0
    assert "trained" not in capsys.readouterr().out


def test_a_form_must_have_the_shape_of_the_model(tmp_path: Path) -> None:
    model = small_model()
    form = ArrayFormat((3,), 0, 4, None, True, "int64")
    message = r"shape must be that of the data format \(array\), \(3,\), got \(2,\)"
    with pytest.raises(ValueError, match=message):
        Model(model.process, model.denoiser, shape=(2,), form=form)
    model.form = form
    refused(model.save(tmp_path / "m"), message)


def test_sites_of_a_process_must_be_those_of_the_model(tmp_path: Path) -> None:
    mlp = network.ResidualMLP(4, (3,), width=4, hidden=4, depth=1)
    process = noise.Absorbing(4, noise.LogLinear(), sizes=torch.tensor([2, 3]))
    message = r"shape must match the sites \(2,\) of the process, .* got sites \(3,\)"
    with pytest.raises(ValueError, match=message):
        Model(process, denoise.NetworkDenoiser(mlp), shape=(3,))
    model = Model(process, denoise.NetworkDenoiser(mlp))
    model.shape = (3,)
    refused(model.save(tmp_path / "m"), message)


def test_states_of_a_process_must_be_those_of_the_data_format(tmp_path: Path) -> None:
    mlp = network.ResidualMLP(4, (2,), width=4, hidden=4, depth=1)
    for sizes, form, message in (
        ([2, 3], old_table({"a": ["x", "y"], "b": ["1", "2"]}), r"has 3 states of data at site \(1,\), .* has 2"),
        ([2, 2], old_table({"a": ["x", "y"], "b": ["1", "2", "3"]}), r"has 2 states of data at site \(1,\), .* has 3"),
        ([3, 3], ArrayFormat((2,), 0, 9, None, True, "int64"), r"has 3 states of data at site \(0,\), .* has 9"),
    ):
        process = noise.Absorbing(4, noise.LogLinear(), sizes=torch.tensor(sizes))
        with pytest.raises(ValueError, match=message):
            Model(process, denoise.NetworkDenoiser(mlp), shape=(2,), form=form)
        model = Model(process, denoise.NetworkDenoiser(mlp), shape=(2,))
        model.form = form
        refused(model.save(tmp_path / "m"), message)


def old_table(categories: dict[str, list[str]]) -> Format:
    """Return the form of a table of an earlier version, which may have sites of one category."""
    columns, texts = list(categories), list(categories.values())
    return format_from_config({"kind": "table", "columns": columns, "categories": texts, "ordered": False})


def test_states_that_a_form_does_not_have() -> None:
    for form, x in (
        (TextFormat(2, "ab"), [[0, 2]]),
        (old_table({"a": ["x"], "b": ["1", "2"]}), [[1, 0]]),
        (ArrayFormat((2,), 0, 3, None, True, "int64"), [[0, -1]]),
    ):
        with pytest.raises(ValueError, match=r"row 0 has the state .* does not have"):
            form.check(torch.tensor(x))


def test_data_that_is_not_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("x.csv", "x.npy", "x.npz", "x.txt", "x.tsv", "x.parquet", "t-idx3-ubyte.gz", "x.tar.gz"):
        os.mkfifo(tmp_path / name)
        assert cli.main(["train", str(tmp_path / name), "--out", str(tmp_path / "run")]) == 2
        assert str(tmp_path / name) in capsys.readouterr().err
    assert cli.main(["train", "/dev/zero", "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()
