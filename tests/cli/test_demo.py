"""``tauleap demo``: everything it promises is in its folder, and the numbers are those of what is there."""

import json
import multiprocessing
import os
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tauleap as tl
from tauleap import cli
from tauleap.cli.run import demo as toy_demo
from tauleap.cli.run.demo_workers import Workers
from tauleap.data import tau_pmf
from tauleap.evaluate import hellinger, hellinger_of_laws, pushforward
from tauleap.recipes.toy import exact_reverse

TINY = toy_demo.Size(
    steps=3,
    leaps=(4, 6),
    ancestral=(4,),
    draws=5,
    rows=8,
    processes=0,
    frames=3,
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_demo, "QUICK", TINY)
    monkeypatch.setattr(import_module("tauleap.recipes.toy"), "_ROWS", 2000)


def test_the_demo_writes_what_it_says_and_writes_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a" / "b"
    threads = torch.get_num_threads()
    laws = {}
    pushes = toy_demo.Work.law

    def law(work: toy_demo.Work) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """As it is, but kept for the second run: solving for exact simulation is what takes the time."""
        key = (work.sampler, work.evaluations, work.model is None)
        laws[key] = laws.get(key) or pushes(work)
        return laws[key]

    monkeypatch.setattr(toy_demo.Work, "law", law)
    assert cli.main(["demo", "--quick", "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {*toy_demo.FILES, "tauleap-demo.json"}
    for name in toy_demo.FILES:
        assert str(folder / name) in shown
    with Image.open(folder / "figure.png") as figure, Image.open(folder / "reverse.gif") as film:
        figure.load()
        assert getattr(film, "n_frames", 1) == TINY.frames + 1
    metrics = json.loads((folder / "metrics.json").read_bytes())
    assert metrics["seed"] == 0
    _check_numbers(metrics, folder, shown)
    assert torch.get_num_threads() == threads

    (folder / "mine.txt").write_text("")
    before = (folder / "model" / "model.safetensors").read_bytes()
    assert cli.main(["demo", "--quick", "--out", str(folder), "--json", "--seed", "3"]) == 0
    facts = json.loads(capsys.readouterr().out)
    others = [str(folder / name) for name in ("mine.txt", "tauleap-demo.json")]
    assert sorted([*facts["files"], *others]) == sorted(str(path) for path in folder.iterdir())
    assert json.loads((folder / "metrics.json").read_bytes()) == facts["metrics"]
    assert facts["metrics"]["seed"] == 3
    assert (folder / "model" / "model.safetensors").read_bytes() != before


def _check_numbers(metrics: dict, folder: Path, shown: str) -> None:
    """Against laws pushed here, histograms of the samples that were written, and what is known in closed form."""
    data, exact = tau_pmf(), exact_reverse()
    entries = {(e["sampler"], e["evaluations"]): e for e in metrics["samplers"]}
    assert len(entries) == len(metrics["samplers"]) == 4
    with torch.no_grad():
        for name, sampler in (("tau-leaping", tl.sampling.TauLeaping("add")), ("ancestral", tl.sampling.Ancestral())):
            entry = entries[name, 4]
            for reverse, key in (
                (tl.load(folder / "model").reverse.double(), "hellinger"),
                (exact, "hellinger_exact_denoiser"),
            ):
                law = pushforward.sample_law(sampler, reverse, 2, tl.sampling.uniform_grid(3))
                assert entry[key] == pytest.approx(hellinger_of_laws(law, data), rel=1e-9)
            assert f"{entry['hellinger']:.4f}" in shown
        floor = pushforward.apply_final(exact, pushforward.reverse_chain_law(exact, data, 0.01), 0.01, "mode")
    assert metrics["floor"] == pytest.approx(hellinger_of_laws(floor, data), rel=1e-9)
    (simulated,) = (e for e in metrics["samplers"] if e["sampler"] == "exact simulation")
    assert simulated["hellinger_exact_denoiser"] == metrics["floor"] < simulated["hellinger"]
    assert simulated["evaluations"] > 50
    drawn = np.load(folder / "samples.npz")
    for key, name in (("tau_leaping", "tau-leaping"), ("exact_simulation", "exact simulation")):
        found = hellinger(torch.from_numpy(drawn[key]).long(), data)
        assert metrics["drawn"][name] == {"n": TINY.draws, "hellinger": found.value, "stderr": found.stderr}
    bits = metrics["bits_per_dim"]
    assert bits["entropy"] == pytest.approx(float(-(data[data > 0] * data[data > 0].log2()).sum()) / 2)
    assert 0 < bits["prior"] < 0.1
    # Three steps of training teach next to nothing, and what the exact denoiser adds to the entropy is less.
    assert bits["difference"] == pytest.approx(bits["trained"] - bits["exact_denoiser"])
    assert bits["difference"] > 4 * bits["difference_stderr"]


def test_work_goes_on_in_another_process_which_ends_at_once_with_an_error_here() -> None:
    workers, began = Workers(1), time.monotonic()
    with pytest.raises(KeyboardInterrupt), workers:
        _stopped_while_working(workers)
    assert time.monotonic() - began < 100
    assert multiprocessing.active_children() == []


def _stopped_while_working(workers: Workers) -> None:
    assert workers.start(os.getpid).result() != os.getpid()
    assert workers.start(torch.get_num_threads).result() == 1
    workers.start(_sleep)
    raise KeyboardInterrupt


def _sleep() -> None:
    time.sleep(600)


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_the_demo_refuses_a_seed(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--out", str(tmp_path / "out"), "--seed", seed]) == 2
    assert capsys.readouterr().err.startswith("tauleap: error: --seed must be")
    assert not (tmp_path / "out").exists()


def test_the_demo_does_not_write_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert cli.main(["demo", "--out", str(tmp_path / "taken")]) == 2
    assert "taken" in capsys.readouterr().err


def test_the_demo_does_not_begin_where_it_could_not_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tauleap-demo.json").write_text("")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("")
    assert cli.main(["demo", "--out", str(tmp_path)]) == 2
    assert (
        f"{tmp_path / 'model'} exists and is not a model of tauleap: write another folder with --out"
        in capsys.readouterr().err
    )
    assert cli.main(["demo", "--out", "/proc"]) == 2
    assert "/proc is not empty and does not hold a demo of tauleap" in capsys.readouterr().err
    assert cli.main(["demo", "--out", "/proc/demo"]) == 2
    assert "No such file or directory: '/proc/demo'" in capsys.readouterr().err
