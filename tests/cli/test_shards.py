"""Several processes fill one folder: the samples are those of one process, however they are cut, killed or raced."""

import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap import cli
from tauleap._files.owned import locked
from tauleap._seeds import derive_seed
from tauleap.cli import blocks
from tauleap.cli.blocks import Blocks, exclusive_lock, shared_lock
from tauleap.cli.model import fingerprint, load_model, rows_at_once
from tauleap.cli.options import Shard
from tauleap.cli.run import sample as sample_command
from tauleap.data.image import format as images
from tauleap.data.image.format import ImageFormat
from tauleap.denoise import NetworkDenoiser, TruncatedLogistic
from tauleap.network import ResidualMLP, UNet
from tauleap.noise import Constant, Gaussian, Uniform

ASK = ["sample", "toy", "-n", 45, "--steps", 2, "--batch-size", 10]


def ran(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert cli.main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def refused(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert cli.main([*map(str, arguments)]) == 2
    return capsys.readouterr().err


def held(folder: Path) -> dict[str, bytes]:
    """Every file, and its bytes: lock, request and samples."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.fixture
def whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, bytes]:
    """The folder that one process makes."""
    ran([*ASK, "--out", tmp_path / "whole"], capsys)
    return held(tmp_path / "whole")


@pytest.fixture(scope="module")
def image_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained, of pictures 4 x 4 in colour."""
    torch.manual_seed(0)
    process = Uniform(256, Constant(0.01))
    network = ResidualMLP(256, (3, 4, 4), width=16, depth=1)
    model = tl.Model(process, NetworkDenoiser(network), shape=(3, 4, 4), form=ImageFormat(3, 4, 4))
    return model.save(tmp_path_factory.mktemp("model") / "m")


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_shards_give_the_samples_of_one_process(
    order: tuple[int, ...], whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, missing = tmp_path / "s", 5
    for index in order[:-1]:
        missing -= {1: 2, 2: 2, 3: 1}[index]
        facts = ran([*ASK, "--shard", f"{index}/3", "--out", out], capsys)
        assert (facts["files"], facts["missing_parts"]) == ([], missing)
        assert not list(out.glob("samples*"))
        # Once more, there is nothing to do.
        assert ran([*ASK, "--shard", f"{index}/3", "--out", out], capsys) == facts
    facts = ran([*ASK, "--shard", f"{order[-1]}/3", "--out", out], capsys)
    sampling = facts.pop("sampling")
    assert (sampling["sampler"], sampling["steps"]) == ("Ancestral()", 2)
    assert facts == {"run": "toy", "n": 45, "files": [str(out / "samples.npy")], "missing_parts": 0}
    assert held(out) == whole
    late = ran([*ASK, "--shard", f"{order[0]}/3", "--out", out], capsys)
    assert late["files"] == facts["files"]
    assert held(out) == whole


def test_what_a_shard_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*map(str, ASK), "--out", str(tmp_path / "s")]
    assert cli.main([*arguments, "--shard", "9/9"]) == 0
    out = capsys.readouterr().out
    assert "shard 9/9 is done; the other shards have 5 of 5 blocks left" in out
    assert "45 samples are 5 blocks of 10: a smaller --batch-size would use all 9 shards" in out


@pytest.mark.parametrize("lost", [0, 20, 40])
def test_a_lost_part_is_made_again(
    lost: int,
    whole: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By whichever cut, also another one than before; what is half written is swept away."""
    out = tmp_path / "s"
    # The last shard of two is stopped before it writes the files.
    ran([*ASK, "--shard", "1/2", "--out", out], capsys)
    with monkeypatch.context() as patch:
        patch.setattr(Blocks, "missing", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli.main([*map(str, ASK), "--shard", "2/2", "--out", str(out)]) == 130
    assert len(list((out / ".parts").glob("*.npy"))) == 5
    (out / ".parts" / f"{lost:08d}.npy").unlink()
    (out / ".parts" / f".{lost:08d}.npy.1.tmp").write_bytes(b"half")
    (out / ".samples.npy.1.tmp").write_bytes(b"half")
    made = []
    with monkeypatch.context() as patch:
        original = sample_command._sample_block
        patch.setattr(sample_command, "_sample_block", lambda *a: made.append(a[1]) or original(*a))
        ran([*ASK, "--out", out], capsys)
    assert made == [lost]
    assert held(out) == whole


def test_killed_while_it_writes_the_files(
    whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "s"
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "_remove_blocks", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli.main([*map(str, ASK), "--out", str(out)]) == 130
    (out / "samples.npy").unlink()
    ran([*ASK, "--shard", "2/2", "--out", out], capsys)
    assert held(out) == whole


def test_shards_of_another_request_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s"
    ran([*ASK, "--shard", "1/2", "--out", out], capsys)
    for more, printed in [
        (["--seed", 1], "seed"),
        (["--steps", 3], "steps"),
        (["--batch-size", 9], "batch_size"),
        (["--memory", 1], "batch_size"),
        (["--correctors", 1], "correctors"),
        (["-n", 46], "n"),
    ]:
        arguments = [word for word in ASK if "--memory" not in more or word not in ("--batch-size", 10)]
        error = refused([*arguments, *more, "--shard", "2/2", "--out", out], capsys)
        assert f"holds samples of another request ({printed} differ)" in error
    assert "in use" not in error


def test_a_shard_that_is_being_made_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s"
    ran([*ASK, "--shard", "1/2", "--out", out], capsys)
    with locked(out, ".parts/2-of-2.lock"):
        error = refused([*ASK, "--shard", "2/2", "--out", out], capsys)
    assert f"in use by process {os.getpid()}" in error


def test_processes_at_once(whole: dict[str, bytes], tmp_path: Path) -> None:
    """Both begin and end together; each says that all went well."""
    out = tmp_path / "s"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "import sys; from tauleap.cli import main; sys.exit(main())", *map(str, ASK)]
    started = [
        subprocess.Popen(
            [*command, "--json", "--shard", shard, "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for shard in ("1/2", "2/2")
    ]
    printed = [process.communicate(timeout=200) for process in started]
    assert [process.returncode for process in started] == [0, 0], printed
    assert held(out) == whole
    assert any(json.loads(said)["files"] for said, _ in printed)


def test_many_finish_at_once(
    whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All stand before the door to the files when it opens: one writes them, and the others find them there."""
    out, shards = tmp_path / "s", 4
    model, form = load_model(Path("toy"), "cpu")
    request = sample_command.Request(fingerprint(model), 45, 2, "ancestral", 1.0, 0, 10, grid="geometric")
    barrier, original = threading.Barrier(shards), blocks.exclusive_lock

    def door(folder: Path) -> object:
        barrier.wait(60)
        return original(folder)

    for index in range(1, shards + 1):  # all parts but the files
        monkeypatch.setattr(Blocks, "missing", lambda *_: 5)
        sample_command.draw_to(out, model, form, request, shard=Shard(index, shards), progress=False)
    monkeypatch.undo()
    monkeypatch.setattr(blocks, "exclusive_lock", door)
    found: list[blocks.ResumeResult] = []

    def finish(index: int) -> None:
        found.append(sample_command.draw_to(out, model, form, request, shard=Shard(index, shards), progress=False))

    threads = [threading.Thread(target=finish, args=(index,)) for index in range(1, shards + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [drawn.files for drawn in found] == [[out / "samples.npy"]] * shards
    assert sum(drawn.first is not None for drawn in found) == 1
    assert held(out) == whole


def test_the_first_begins_and_who_dies_beginning_is_replaced(tmp_path: Path) -> None:
    done: list[str] = []
    with shared_lock(tmp_path, lambda: done.append("a"), lambda: bool(done)):
        with shared_lock(tmp_path, lambda: done.append("b"), lambda: bool(done)):
            pass
        reached = multiprocessing.Event()
        waiting = threading.Thread(target=lambda: _enter(tmp_path, reached))
        waiting.start()
        assert not reached.wait(0.2)  # somebody works
    assert reached.wait(10)
    waiting.join(10)
    assert done == ["a"]
    dead: list[str] = []

    def begin() -> None:
        dead.append("tried")

    with shared_lock(tmp_path, begin, lambda: len(dead) == 2):
        assert dead == ["tried", "tried"]


def _enter(folder: Path, reached: object) -> None:
    with exclusive_lock(folder):
        reached.set()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "a/b", "-1/4", "1/4/2", "", "1.0/2"])
def test_bad_shards(text: str) -> None:
    with pytest.raises(ValueError, match="--shard must be I/N with I from 1 to N"):
        Shard.read(text)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_shards_cover_every_part_once(count: int) -> None:
    rows = Blocks(Path("s"), {}, {}, n=45, size=2, shape=(2,), num_states=32)
    each = [rows.starts_of(Shard(index, count)) for index in range(1, count + 1)]
    assert sorted(itertools.chain(*each)) == list(range(0, 45, 2))
    assert max(map(len, each)) - min(map(len, each)) <= 1


def test_the_batch_is_what_fits_into_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = load_model(Path("toy"), "cpu")  # 2 sites of 32 states: 4096 bytes a row
    assert rows_at_once(model, None, memory=40 * 4096 / 2**30) == 40
    assert rows_at_once(model, None, memory=1e-9) == 1
    assert rows_at_once(model, None) == 1024
    assert rows_at_once(model, 7, memory=1e-9) == 7
    music, _ = load_model(Path("music-small"), "cpu")
    entries = music.num_states * int(np.prod(music.shape))  # pyright: ignore[reportArgumentType]
    assert rows_at_once(music, None) == 2**24 // entries
    assert rows_at_once(music, None, memory=0.5) == 2**23 // entries
    arguments = ["sample", "toy", "-n", 25, "--steps", 2, "--out", tmp_path / "s"]
    ran([*arguments, "--memory", 10 * 4096 / 2**30, "--shard", "1/2"], capsys)
    assert json.loads((tmp_path / "s" / "request.json").read_text())["request"]["batch_size"] == 10
    # Without the option, the batch size of the folder is used.
    assert ran(arguments, capsys)["files"]


def test_a_folder_of_an_older_version_goes_on(
    whole: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s"
    ran([*ASK, "--shard", "1/2", "--out", out], capsys)
    held_now = json.loads((out / "request.json").read_text())
    for name in ("correctors", "corrector_scale", "corrector_start", "format", "labels", "guidance"):
        del held_now["request"][name]
    (out / "request.json").write_text(json.dumps(held_now))
    ran([*ASK, "--out", out], capsys)
    assert held(out)["samples.npy"] == whole["samples.npy"]


def pictures_of(model: Path, out: Path, *more: object) -> list[object]:
    return ["sample", model, "-n", 70, "--steps", 2, "--batch-size", 8, "--out", out, *more]


def test_pictures_are_written_with_their_part(
    image_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a shard are there before the others have begun, under names that their numbers decide."""
    ran(pictures_of(image_model, tmp_path / "whole"), capsys)
    whole, out = held(tmp_path / "whole"), tmp_path / "s"
    ran(pictures_of(image_model, out, "--shard", "2/3"), capsys)
    mine = {f"samples-{n:06d}.png" for first in (8, 32, 56) for n in range(first, first + 8)}
    assert {path.name for path in out.glob("*.png")} == mine
    assert all((out / name).read_bytes() == whole[name] for name in mine)
    part = np.load(out / ".parts" / "00000008.npy")
    assert (part.dtype, part.shape) == (np.uint8, (8, 3, 4, 4))
    for shard in ("1/3", "3/3"):
        ran(pictures_of(image_model, out, "--shard", shard), capsys)
    assert held(out) == whole
    monkeypatch.setattr(
        sample_command, "MAX_CELLS", 480
    )  # as where the samples are too many for one file of another kind
    ran(pictures_of(image_model, tmp_path / "many"), capsys)
    assert held(tmp_path / "many") == whole


@pytest.mark.parametrize("killed", [0, 1, 11, 69, 70])
def test_killed_while_it_writes_pictures(
    killed: int,
    image_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the picture of this number, or the sheet: no sample is drawn again, no picture is written twice."""
    ran(pictures_of(image_model, tmp_path / "whole"), capsys)
    out, original = tmp_path / "s", images._save
    saved: list[str] = []

    def save(pixels: torch.Tensor, path: Path) -> Path:
        if len(saved) == killed:
            raise KeyboardInterrupt
        saved.append(path.name)
        return original(pixels, path)

    with monkeypatch.context() as patch:
        patch.setattr(images, "_save", save)
        assert cli.main(list(map(str, pictures_of(image_model, out)))) == 130
    assert {path.name for path in out.glob("*.png")} == set(saved)
    drawn: list[int] = []
    sample_block, before, killed = sample_command._sample_block, min(killed, 69), -1
    with monkeypatch.context() as patch:
        patch.setattr(images, "_save", save)
        patch.setattr(sample_command, "_sample_block", lambda *a: drawn.append(a[1]) or sample_block(*a))
        ran(pictures_of(image_model, out), capsys)
    assert drawn == [first for first in range(0, 70, 8) if first > before]
    assert len(saved) == len(set(saved)) == 71
    assert held(out) == held(tmp_path / "whole")


def test_melodies_are_written_with_their_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, form = load_model(Path("music-small"), "cpu")
    request = sample_command.Request(fingerprint(model), 3, 1, "ancestral", 1.0, 0, 2)
    sample_command.draw_to(tmp_path / "s", model, form, request, shard=Shard(1, 2), progress=False)
    there = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("samples*")}
    assert sorted(there) == [f"samples-{n:06d}.{end}" for n in (0, 1) for end in ("mid", "wav")]
    (tmp_path / "s" / "samples-000001.mid").unlink()
    files = sample_command.draw_to(tmp_path / "s", model, form, request, progress=False).files
    assert [file.name for file in files] == [f"samples-{n:06d}.{end}" for n in range(3) for end in ("mid", "wav")]
    assert all(file.is_file() for file in files)
    assert files[0].stat().st_mtime_ns == there["samples-000000.mid"]


def test_pictures_in_one_array(image_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same samples as in the files, in the same order; and FID reads both alike."""
    from tauleap.evaluate.pictures import pictures

    ask = ["sample", image_model, "-n", 7, "--steps", 2, "--batch-size", 3]
    files = ran([*ask, "--out", tmp_path / "png"], capsys)["files"]
    assert len(files) == 8
    (file,) = ran([*ask, "--format", "npy", "--out", tmp_path / "npy"], capsys)["files"]
    array = np.load(file)
    assert (array.dtype, array.shape) == (np.uint8, (7, 3, 4, 4))
    png, npy = pictures(tmp_path / "png"), pictures(tmp_path / "npy")
    for place in range(7):
        assert torch.equal(png[place], torch.from_numpy(array[place]))
        assert torch.equal(npy[place], png[place])
    assert "format differ" in refused([*ask, "--out", tmp_path / "npy"], capsys)
    ran([*ask, "--format", "png", "--out", tmp_path / "png"], capsys)  # what it is anyway


def test_a_model_of_pictures_takes_arrays_of_them(
    image_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3)).astype(np.uint8)
    np.savez(tmp_path / "set.npz", x_train=rows[:0], x_test=rows)
    found = ran(["evaluate", image_model, tmp_path / "set.npz", "--samples", 1], capsys)
    assert (found["rows"], found["read"]) == (2, ["read the array x_test: 2 rows"])
    # The upper half is three ranges, one a channel.
    ask = ["complete", image_model, tmp_path / "set.npz", "--steps", 1, "--out", tmp_path / "c"]
    filled = ran([*ask, "--observed", "0:8,16:24,32:40"], capsys)
    assert (filled["rows"], filled["filled"]) == (2, 2 * 3 * 8)
    completed = ImageFormat(3, 4, 4).read(Path(filled["files"][1])).x[0]
    assert np.array_equal(completed[:, :2].numpy(), rows[0].transpose(2, 0, 1)[:, :2])
    printed = refused([*ask[:-1], tmp_path / "d"], capsys)
    assert "has no missing values to fill in: make pixels of a PNG transparent, or name the observed values" in printed


def test_correctors_are_those_of_the_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["sample", "toy", "-n", 20, "--steps", 4, "--sampler", "tau-leaping", "--batch-size", 20]
    more = ["--correctors", 2, "--corrector-scale", 0.5, "--corrector-start", 0.6]
    (file,) = ran([*ask, *more, "--out", tmp_path / "c"], capsys)["files"]
    sampler = tl.sampling.WithCorrector(tl.sampling.TauLeaping(), 2, scale=0.5, start=0.6)
    seed = derive_seed(0, "rows", 0)
    expected = tl.load("toy").sample(20, steps=4, sampler=sampler, seed=seed, batch_size=20, states=True)
    np.testing.assert_array_equal(np.load(file), expected.numpy())
    (plain,) = ran([*ask, "--out", tmp_path / "p"], capsys)["files"]
    assert (np.load(plain) != np.load(file)).any()
    assert "corrector_scale differ" in refused(
        [*ask, *more[:2], "--corrector-scale", 0.4, *more[4:], "--out", tmp_path / "c"], capsys
    )


@pytest.fixture(scope="module")
def labelled_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class-conditional model of 4 x 4 images with three labels, which samples differently for each."""
    torch.manual_seed(0)
    network = UNet(256, 1, width=4, multipliers=(1,), depth=1, attention_levels=(), num_classes=3)
    torch.nn.init.normal_(network.classes.weight, std=3.0)
    for parameter in network.output.parameters():
        torch.nn.init.normal_(parameter)
    process = Gaussian(256, Constant(20.0), sigma_0=512.0, sigma_r=6.0)
    model = tl.Model(process, TruncatedLogistic(network, 256), shape=(1, 4, 4), form=ImageFormat(1, 4, 4))
    return model.save(tmp_path_factory.mktemp("labelled") / "m")


def test_labels_are_dealt_out_in_turn(labelled_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels do not depend on the blocks: a block that begins at sample 4 continues with the second of three."""
    ask = ["sample", labelled_model, "-n", 8, "--steps", 3, "--batch-size", 4, "--format", "npy"]
    (file,) = ran([*ask, "--label", "2, 0,1", "--out", tmp_path / "l"], capsys)["files"]
    model, labels = tl.load(labelled_model), torch.tensor([2, 0, 1, 2, 0, 1, 2, 0])
    for first in (0, 4):
        expected = model.sample(
            4,
            steps=3,
            seed=derive_seed(0, "rows", first),
            batch_size=4,
            condition=labels[first : first + 4],
            states=True,
        )
        np.testing.assert_array_equal(np.load(file)[first : first + 4], expected.numpy())
    (guided_file,) = ran([*ask, "--label", "2,0,1", "--guidance", 3, "--out", tmp_path / "g"], capsys)["files"]
    guided = tl.ReverseProcess(model.process, tl.denoise.Guided(model.denoiser, 3.0, null_label=3))
    drawn = tl.sample(
        guided,
        tl.sampling.Ancestral(),
        (4, 1, 4, 4),
        grid=torch.tensor(model.sampling_plan(steps=3).grid, dtype=torch.float64),
        final="sample",
        condition=labels[:4],
        generator=torch.Generator().manual_seed(derive_seed(0, "rows", 0)),
    )
    np.testing.assert_array_equal(np.load(guided_file)[:4], drawn.x0.numpy())
    assert (np.load(guided_file) != np.load(file)).any()
    (plain,) = ran([*ask, "--out", tmp_path / "p"], capsys)["files"]
    assert (np.load(plain) != np.load(file)).any()
    assert "labels differ" in refused([*ask, "--label", "1", "--out", tmp_path / "l"], capsys)


@pytest.mark.parametrize("text", ["3", "-1", "", "0,,1", "seven", "0:2", "1.0", "9" * 30])
def test_labels_that_the_model_has_not(
    text: str, labelled_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(["sample", labelled_model, f"--label={text}", "--out", tmp_path / "s"], capsys)
    assert "--label must be a class label from 0 to 2" in error
    assert not (tmp_path / "s").exists()


def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["sample", "toy", "--out", tmp_path / "s"]
    for more, message in [
        (["--shard", "5/4"], "--shard must be I/N"),
        (["--memory", 0], "--memory must be a finite number of gigabytes > 0"),
        (["--memory", "nan"], "--memory must be a finite number"),
        (["--memory", 1, "--batch-size", 3], "write only one of them"),
        (["--format", "npy"], "--format needs a model of images"),
        (["--label", 1], "--label needs a class-conditional model"),
        (["--guidance", 2], "--guidance needs --label"),
        (["--guidance", 0], "--guidance must be a finite number > 0"),
        (["--correctors", -1], "--correctors must be >= 0"),
        (["--corrector-scale", 1], "--corrector-scale needs --correctors"),
        (["--corrector-start", 1], "--corrector-start needs --correctors"),
        (["--correctors", 1, "--corrector-scale", 0], "--corrector-scale must be a finite number > 0"),
        (["--correctors", 1, "--corrector-start", 2], "--corrector-start must be a time in (0, 1]"),
    ]:
        assert message in refused([*ask, *more], capsys)
    assert not (tmp_path / "s").exists()
