"""Models give equal results on an accelerator and on the CPU: loading, sampling, completion, bits/dim, fitting."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import tauleap as tl
from tauleap import _memory, cli
from tauleap.pretrained import builtin_models


def both(name: str) -> tuple[tl.Model, tl.Model]:
    """Return the model on the CPU and on the simulated device."""
    return tl.load(name, device="cpu"), tl.load(name, device="sim")


@pytest.mark.parametrize("name", builtin_models())
def test_shipped_models_give_the_samples_of_the_cpu(each_sim: torch.device, name: str) -> None:
    """Use eight rows: for fewer images the CPU computes in blocks that fit its cache, and samples in another order."""
    here, there = both(name)
    assert there.device == each_sim
    drawn = there.sample(8, steps=2, seed=1, states=True)
    assert drawn.device.type == "cpu"
    assert torch.equal(drawn, here.sample(8, steps=2, seed=1, states=True))


def test_auto_is_the_accelerator(sim: torch.device) -> None:
    assert tl.load("toy").device == sim
    assert tl.load("toy", device="cpu").device.type == "cpu"
    assert tl.load("toy").to("cpu").to("auto").device == sim


@pytest.mark.parametrize("variants", [1, 2])
def test_completions_are_those_of_the_cpu(each_sim: torch.device, variants: int) -> None:
    here, there = both("toy")
    x, known = torch.tensor([[5, 9], [20, 3], [7, 7]]), torch.tensor([True, False])
    found = there.complete(x, known, variants=variants, steps=4, seed=3)
    assert torch.equal(found, here.complete(x, known, variants=variants, steps=4, seed=3))
    assert torch.equal(found.reshape(-1, 3, 2)[:, :, 0], x[:, 0].expand(variants, 3))


@pytest.mark.parametrize("observed", [None, [False, True]])
def test_bits_per_dim_are_those_of_the_cpu(each_sim: torch.device, observed: list[bool] | None) -> None:
    here, there = both("toy")
    x = here.sample(16, steps=5, seed=0)
    found, expected = (model.bits_per_dim(x, observed, samples=4, seed=2) for model in (there, here))
    assert found.value == pytest.approx(expected.value, rel=1e-5)
    assert found.stderr == pytest.approx(expected.stderr, rel=1e-4)


def test_guided_samples_are_those_of_the_cpu(sim: torch.device) -> None:
    here, there = both("mnist-small")
    labels = torch.arange(8)
    drawn = [
        model.sample(8, steps=2, seed=1, condition=labels, guidance=2.0, temperature=0.9) for model in (there, here)
    ]
    assert torch.equal(*drawn)


def test_a_model_is_fitted_saved_and_loaded_on_the_device(each_sim: torch.device, tmp_path: Path) -> None:
    rows = torch.randint(3, (60, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 4)
    fitted = {
        device: tl.fit(rows, steps=4, seed=1, progress=False, device=device, out=tmp_path / device)
        for device in ("sim", "cpu")
    }
    there, here = fitted["sim"], fitted["cpu"]
    assert (there.device, here.device.type) == (each_sim, "cpu")
    for name, weight in here.reverse.state_dict().items():
        torch.testing.assert_close(there.reverse.state_dict()[name].cpu(), weight, rtol=1e-4, atol=1e-5)
    value = there.about["bits_per_dim"]["value"]
    assert value == pytest.approx(here.about["bits_per_dim"]["value"], rel=1e-3)
    again = tl.load(there.save(tmp_path / "saved"), device="cpu")
    assert torch.equal(again.sample(4, steps=3, seed=0), there.sample(4, steps=3, seed=0))


def test_a_default_device_of_the_user_changes_nothing(sim: torch.device, tmp_path: Path) -> None:
    rows = torch.randint(3, (60, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 4)

    def numbers() -> tuple[Tensor, float]:
        model = tl.fit(rows, steps=2, seed=1, progress=False)
        loaded = tl.load(model.save(tmp_path / "saved"))
        filled = loaded.complete(rows[:4], observed=[True, True, False, False], steps=3, seed=0)
        return torch.cat([loaded.sample(4, steps=3, seed=0), filled]), loaded.bits_per_dim(rows[:9], seed=0).value

    expected = numbers()
    torch.set_default_device(sim)
    try:
        found = numbers()
    finally:
        torch.set_default_device(None)
    assert torch.equal(found[0].cpu(), expected[0])
    assert found[1] == expected[1]
    with sim:
        assert torch.equal(tl.load(tmp_path / "saved").sample(4, steps=3, seed=0), expected[0][:4])


class Cycle(tl.noise.ForwardProcess):
    """A process without buffers, which builds its generator on the CPU."""

    def generator(self) -> Tensor:
        eye = torch.eye(self.num_states, dtype=torch.float64)
        return eye.roll(1, dims=1) - eye


@pytest.mark.parametrize(
    ("each_sim", "place"), [("float64", "sim"), ("float64", "cpu"), ("no float64", "sim")], indirect=["each_sim"]
)
def test_user_networks_and_processes_from_either_device(each_sim: torch.device, place: str, tmp_path: Path) -> None:
    rows = torch.randint(3, (60, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 4)
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(3, 8), nn.GELU(), nn.Linear(8, 3)).to(place)
    cycle = Cycle(3, tl.noise.Constant(8.0))
    there, here = (
        tl.fit(rows, process=cycle, network=layers, steps=4, seed=1, progress=False, device=device)
        for device in ("sim", "cpu")
    )
    assert (there.device, layers[0].weight.device.type) == (each_sim, place)
    assert cycle.stationary().device.type == "cpu"  # a copy of it was moved
    for name, weight in here.reverse.state_dict().items():
        torch.testing.assert_close(there.reverse.state_dict()[name].cpu(), weight, rtol=1e-4, atol=1e-5)
    loaded = tl.load(there.save(tmp_path / "saved"), classes=[Cycle])
    assert loaded.device == each_sim
    assert torch.equal(loaded.sample(4, steps=3, seed=0), there.to("cpu").sample(4, steps=3, seed=0))


def test_a_process_is_cast_on_its_device(sim: torch.device) -> None:
    for process in (Cycle(3, tl.noise.Constant(8.0)), tl.noise.Uniform(3, tl.noise.Constant(8.0))):
        assert process.to(sim).half().stationary().device == sim


def test_batch_sizes_depend_on_the_memory_of_the_device(sim: torch.device) -> None:
    torch.sim.memory = 2**20, 2**22  # pyright: ignore[reportAttributeAccessIssue]
    model = tl.load("toy")
    assert model.default_batch_size() == _memory.default_batch_size(sim, 2 * 32) == 2**20 // (64 * 2 * 32) == 256
    torch.sim.memory = 2**30, 2**40  # pyright: ignore[reportAttributeAccessIssue]
    assert model.default_batch_size() == 2**14
    assert tl.load("toy", device="cpu").default_batch_size() == 1024


def test_commands_compute_on_the_device(sim: torch.device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.sim.memory = 2**14, 2**16  # pyright: ignore[reportAttributeAccessIssue]
    assert cli.main(["info", "toy", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["device"], facts["batch_size"]) == ("sim:0", 4)
    out = str(tmp_path / "samples")
    command = ["sample", "toy", "-n", "6", "--steps", "2", "--out", out, "--json"]
    assert cli.main([*command, "--shard", "1/2"]) == 0  # the first part, of four rows
    assert json.loads((tmp_path / "samples" / "request.json").read_text())["request"]["batch_size"] == 4
    # Resumed where more rows would fit, with those that were recorded.
    assert cli.main([*command, "--shard", "2/2", "--device", "cpu"]) == 0
    assert cli.main(["sample", "toy", "-n", "6", "--steps", "2", "--batch-size", "4", "--out", f"{out}-2"]) == 0
    first, second = ((tmp_path / name / "samples.npy").read_bytes() for name in ("samples", "samples-2"))
    assert first == second
    assert cli.main(["evaluate", "toy", f"{out}/samples.npy", "--samples", "2", "--json"]) == 0
    complete = ["complete", "toy", f"{out}/samples.npy", "--observed", "0", "--out", f"{out}-3"]
    assert cli.main([*complete, "--steps", "2"]) == 0


@pytest.mark.parametrize("command", ["sample", "complete", "evaluate", "info", "train"])
def test_absent_devices_raise_a_one_line_error(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(b"")
    files = ["x.npy"] if command in ("complete", "evaluate") else []
    assert cli.main([command, "toy", *files, "--device", "sim"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tauleap: error: device 'sim' is not available on this machine")
    assert said.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]
