"""tl.fit: accuracy on a known distribution, the time budget, and resuming."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import tauleap as tl
from tauleap.choose import column_marginals
from tauleap.data import Dataset, LoadedData, open_data
from tauleap.data.music.format import MusicFormat
from tauleap.data.music.midi import Note, write_midi
from tauleap.data.music.songs import songs_of
from tauleap.data.table.columns import NumberEncoder
from tauleap.data.table.format import TableFormat
from tauleap.evaluate import bits_per_dim
from tauleap.fitting.split import split_rows
from tauleap.testing.cases import draws
from tauleap.testing.laws import random_law


def test_a_known_law_is_learnt() -> None:
    """Within 0.02 bits/dim of the law on the same rows (mean of 3,000 differences), and below independent columns."""
    law = random_law(torch.ones(3, 4, dtype=torch.bool), 2)
    x = draws(law, 12_000, torch.Generator().manual_seed(0))
    model = tl.fit(x, steps=500, validation=1500, progress=False)
    about = model.about
    assert about["independent_bits_per_dim"]["value"] - about["bits_per_dim"]["value"] > 0.1
    fresh = draws(law, 3000, torch.Generator().manual_seed(1))
    bits = bits_per_dim(
        model.reverse, fresh, samples=16, per_datapoint=True, generator=torch.Generator().manual_seed(2)
    ).value
    beyond = bits + law[tuple(fresh.T)].log2() / 3
    stderr = float(beyond.std()) / len(beyond) ** 0.5
    assert stderr < 0.01
    assert float(beyond.mean()) < 0.02


def test_a_budget_is_kept() -> None:
    x = torch.randint(3, (500, 6), generator=torch.Generator().manual_seed(0))
    began = time.monotonic()
    model = tl.fit(x, minutes=0.1, progress=False)
    assert time.monotonic() - began < 6 + 2  # a step, a checkpoint and an evaluation may be under way at the end
    assert model.about["step"] >= 1
    assert model.about["seconds"] < 8


def test_a_folder_keeps_the_run_its_form_and_its_report(tmp_path: Path) -> None:
    texts = ["".join(row) for row in np.random.default_rng(0).choice(list("ab"), (60, 5))]
    first = tl.fit(texts, steps=3, out=tmp_path / "run", progress=False)
    loaded = tl.load(tmp_path / "run")
    assert loaded.about == first.about
    assert loaded.about["step"] == 3
    assert loaded.sample(2, steps=2, seed=0) == first.sample(2, steps=2, seed=0)
    again = tl.fit(texts, steps=5, out=tmp_path / "run", progress=False)
    assert again.about["step"] == 5
    alone = tl.fit(texts, steps=5, progress=False)
    weights = [model.reverse.state_dict() for model in (again, alone)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    with pytest.raises(ValueError, match="another recipe"):
        tl.fit(texts[:-1], steps=6, out=tmp_path / "run", progress=False)


def test_missing_cells_and_sizes_are_learnt_from_what_is_there() -> None:
    """The second column is a copy of the first where both are known; a cell that is missing says nothing."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(2, (3000, 1), generator=generator).repeat(1, 3)
    x[:, 2] = torch.randint(5, (3000,), generator=generator)
    missing = torch.rand(x.shape, generator=generator) < 0.2
    missing[:5] = True
    sizes = torch.tensor([2, 2, 5])
    # What stands in a missing cell is always 1, and must not be learnt.
    data = Dataset(x.masked_fill(missing, 1), 5, missing=missing, sizes=sizes)
    model = tl.fit(data, steps=400, progress=False)
    assert model.about["data"] == [f"{int(missing.all(1).sum())} rows without any value are left out"]
    made = model.sample(2000, steps=100, seed=0)
    assert bool((made < sizes).all())
    assert float((made[:, 0] == made[:, 1]).double().mean()) > 0.97
    assert abs(float((made[:, 0] == 1).double().mean()) - 0.5) < 0.05
    filled = model.complete(data, steps=20, seed=1)
    assert torch.equal(filled[~missing], x[~missing])
    either = missing[:, 0] != missing[:, 1]
    assert float((filled[either, 0] == filled[either, 1]).double().mean()) > 0.97


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"data": torch.zeros(1, 3, dtype=torch.int64)}, ValueError, "two rows or more"),
        ({"validation": 1.5}, ValueError, "fraction in"),
        ({"validation": 1000}, ValueError, "must leave rows to train with"),
        ({"validation": torch.zeros(2, 4, dtype=torch.int64)}, ValueError, r"rows of the shape \(3,\)"),
        ({"minutes": 0.0}, ValueError, "minutes"),
        ({"steps": 0}, ValueError, "steps"),
        ({"process": tl.noise.Uniform(2, tl.noise.Constant(1.0))}, ValueError, "too few for data with 3 states"),
        ({"seed": -1}, ValueError, "seed"),
    ],
)
def test_what_cannot_be_fitted(given: dict, error: type[Exception], message: str) -> None:
    x = torch.arange(30).reshape(10, 3) % 3
    with pytest.raises(error, match=message):
        tl.fit(given.pop("data", x), **({"steps": 1, "progress": False} | given))


def test_a_process_that_leaves_the_states_of_a_site_is_refused() -> None:
    data = Dataset(torch.zeros(4, 2, dtype=torch.int64), 3, sizes=torch.tensor([2, 3]))
    with pytest.raises(ValueError, match=r"but the process does not: write Absorbing\(\.\.\., sizes=data\.sizes\)"):
        tl.fit(data, steps=1, process=tl.noise.Uniform(3, tl.noise.Constant(1.0)), progress=False)


def test_processes_networks_and_objectives_of_the_users_own() -> None:
    x = torch.arange(60).reshape(20, 3) % 3
    prior = column_marginals(Dataset(x, 3))
    model = tl.fit(
        x,
        steps=2,
        process=tl.noise.RankOne(prior, tl.noise.LogLinear()),
        network=tl.network.ResidualMLP(3, (3,)),
        objective=tl.objective.PaperElbo(passes=1) + 0.001 * tl.objective.CrossEntropy(),
        masking=None,
        progress=False,
    )
    assert isinstance(model.process, tl.noise.RankOne)
    assert model.about["choice"] == [
        "noise: RankOne, as given",
        "network: ResidualMLP, as given",
        "objective: PaperElbo(passes=1) + 0.001 * CrossEntropy(), as given",
        "training: batches of 18 rows, learning rate 0.001, precision 32-true",
    ]
    assert model.about["given"]["network"] == "ResidualMLP"


def test_labels_that_no_network_takes_are_left_out_and_said_so() -> None:
    labelled = Dataset(torch.arange(60).reshape(20, 3) % 3, 3, condition=torch.zeros(20, dtype=torch.int64))
    model = tl.fit(labelled, steps=1, progress=False)
    assert model.about["data"] == ["the condition is not used: give a network that takes one, network=..."]
    network = tl.network.SequenceTransformer(4, (3,), width=8, depth=1, heads=2, num_classes=2)
    assert tl.fit(labelled, steps=1, network=network, progress=False).about["data"] == []


def test_pictures_are_learnt_and_completed_in_any_pattern() -> None:
    """Columns of one shade each: far below independent pixels, and the upper rows decide the lower ones."""
    shades = torch.randint(2, (600, 1, 8), generator=torch.Generator().manual_seed(0))
    x = 39 * shades.expand(600, 8, 8)
    model = tl.fit(x, steps=120, validation=60, progress=False)
    assert "a U-Net" in model.about["choice"][1]
    bits, alone = (model.about[key] for key in ("bits_per_dim", "independent_bits_per_dim"))
    assert bits["value"] + 4 * bits["stderr"] < 0.5 * alone["value"]
    known = torch.zeros(8, 8, dtype=torch.bool)
    known[:3] = True
    filled = model.complete(x[:40], known, steps=30, seed=0)
    assert torch.equal(filled[:, :3], x[:40, :3])
    assert float((filled[:, 3:] == x[:40, 3:]).double().mean()) > 0.9


def test_minutes_are_used_whatever_the_first_estimate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the first steps seemed slow, training continues until the time is used; the same call adds its minutes."""
    x = torch.randint(3, (500, 6), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("tauleap.training.budget._seconds_per_step", lambda *given: 1.0)
    first = tl.fit(x, minutes=0.1, out=tmp_path, progress=False)
    assert first.about["steps_trained"] > 4
    again = tl.fit(x, minutes=0.1, out=tmp_path, progress=False)
    assert again.about["steps_trained"] > first.about["steps_trained"]


def test_measuring_ends_soon_after_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randint(3, (4000, 6), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr("tauleap.fitting.measure._LAST_SECONDS", 0.0)
    step = tl.training.loop.Engine.step

    def stopping(self: object, n: int) -> object:
        if n == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, n)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("tauleap.training.loop.Engine.step", stopping)
    model = tl.fit(x, minutes=30.0, validation=2000, progress=False)
    assert model.about["stopped"] == "SIGINT"
    assert model.about["bits_per_dim"]["n"] < 2000


def test_marginals_count_what_is_known() -> None:
    x = torch.tensor([[0, 1], [1, 1], [1, 0]])
    missing = torch.tensor([[True, False], [False, False], [False, False]])
    found = column_marginals(Dataset(x, 3, missing=missing, sizes=torch.tensor([2, 3])))
    assert torch.allclose(
        found, torch.tensor([[0.5, 2.5, 0.0], [1.5, 2.5, 0.5]], dtype=torch.float64) / torch.tensor([[3.0], [4.5]])
    )


def test_songs_are_held_out_whole(tmp_path: Path) -> None:
    """No file, nor a passage in another key, is on both sides."""
    draw = np.random.default_rng(0)
    tunes = [draw.integers(60, 72, 4 * 64) for _ in range(8)]
    tunes[5] = np.concatenate([tunes[0][:64] + 3, tunes[5][64:]])  # begins as another does, in another key
    tunes[6] = np.concatenate([tunes[6][:192], tunes[1][192:]])  # ends with a piece of another, which is kept once
    for number, tune in enumerate(tunes):
        folder = tmp_path / "songs" / str(number)  # all have the same name
        folder.mkdir(parents=True)
        (folder / "song.mid").write_bytes(write_midi([Note(i, i + 1, int(p)) for i, p in enumerate(tune)], 4, 120))
    opened = open_data(tmp_path / "songs", length=64)
    assert opened.groups is not None
    assert len(opened.dataset) == 31
    files = [file for file in range(8) for _ in range(3 if file == 6 else 4)]
    assert opened.groups.tolist() == [{6: 1, 7: 6}.get(file, file) for file in files]
    songs = torch.tensor([{5: 0, 6: 1}.get(file, file) for file in files])
    for seed in range(5):
        kept, held_out, report = split_rows(opened.dataset, 0.1, opened.form, seed, opened.groups)
        sides = [{int(songs[(opened.dataset.x == row).all(1)]) for row in part.x} for part in (kept, held_out)]
        assert not sides[0] & sides[1]
        assert len(kept) + len(held_out) == 31
        assert report == [f"held out: {len(held_out)} of 31 rows, all of {len(sides[1])} songs"]
    about = tl.fit(opened, steps=1, progress=False).about
    assert any(line.startswith("held out: ") for line in about["data"])


def test_scrambled_songs_are_held_out_whole() -> None:
    """The passage in another key is one of pitches, and not of states."""
    form, draw = MusicFormat.scrambled(64, seed=0), torch.Generator().manual_seed(0)
    x = torch.randint(60, 72, (20, 64), generator=draw)
    x = torch.cat([x, x + 3])
    data = Dataset(form.states(x), 129)
    for seed in range(5):
        _, held_out, _ = split_rows(data, 0.2, form, seed)
        assert sorted(songs_of(form.pitches(held_out.x)).bincount().tolist()) == [2] * 4


def test_one_song_only_is_said() -> None:
    x = torch.randint(60, 72, (6, 64), generator=torch.Generator().manual_seed(0))
    opened = LoadedData(Dataset(x, 129), MusicFormat(64), [], torch.zeros(6, dtype=torch.long))
    kept, held_out, report = split_rows(opened.dataset, 2, opened.form, 0, opened.groups)
    assert (len(kept), len(held_out)) == (4, 2)
    assert "songs that are in the training rows too" in report[0]


def test_a_model_of_one_site_that_has_learned_nothing_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """One step is not enough for the marginal of a single site, with which a residual MLP does not begin."""
    rows = torch.randint(8, (800, 1), generator=torch.Generator().manual_seed(0)).clamp(max=2)
    about = tl.fit(rows, network="residual-mlp", steps=1, validation=400, device="cpu").about
    gain = about["gain_over_independent"]
    assert gain["value"] < -2 * gain["stderr"]
    assert about["better_than_independent"] is False
    assert "worse by" in about["interpretation"]
    assert "(train longer: minutes=3)" in capsys.readouterr().out


def test_held_out_rows_have_no_part_in_the_bins() -> None:
    values = np.random.default_rng(0).normal(size=400).round(6)
    model = tl.fit(pandas.DataFrame({"a": values, "b": values > 0}), steps=2, validation=100, progress=False)
    assert isinstance(model.form, TableFormat)
    encoder = model.form.encoder.columns[0].encoder
    assert isinstance(encoder, NumberEncoder)
    assert sum(map(sum, encoder.weights)) == 300
    assert "300 training rows alone" in " ".join(model.about["data"])


def test_data_that_was_opened_before_the_split_has_the_states_of_the_model(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=400).round(6)
    path = tmp_path / "t.csv"
    pandas.DataFrame({"a": values, "b": values > 0}).to_csv(path, index=False)
    opened = open_data(path)
    model = tl.fit(opened, steps=2, validation=100, progress=False)
    assert isinstance(model.form, TableFormat)
    assert model.form != opened.form
    assert torch.equal(model.encode(opened).x, model.encode(path).x)
    other = open_data(path, bins=7)
    held_out = tl.fit(opened, steps=2, validation=other, progress=False).encode(other)
    assert torch.equal(held_out.x, opened.dataset.x)
