"""Names of devices: what they resolve to, and one sentence where this machine does not have them."""

import pytest
import torch

from tauleap import _device, _memory


def test_auto_is_the_cpu_where_there_is_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert _device.resolve() == _device.resolve("auto") == torch.device("cpu")


def test_auto_is_the_accelerator_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    assert _device.resolve("auto") == torch.device("xpu")
    assert _device.resolve("cpu") == _device.resolve("cpu:0") == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu9", "gpu", "", "cuda:x", "cuda:-1"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"device must be auto, cpu, .* got '{name}': write auto"):
        _device.resolve(name)


@pytest.mark.parametrize("name", ["cpu:256", "cuda:300", "cuda:256"])
def test_an_index_that_torch_would_shorten_is_refused_as_it_was_written(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 64)
    with pytest.raises(ValueError, match=f"device '{name}' does not exist"):
        _device.resolve(name)


def test_a_device_of_cuda_is_initialised_before_it_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    generators: list[torch.Generator] = []
    monkeypatch.setattr(torch.cuda, "init", lambda: generators.extend(torch.Generator() for _ in range(2)))
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    _device.seed_default(torch.device("cuda", 1), 7)
    assert [generator.initial_seed() == 7 for generator in generators] == [False, True]


@pytest.mark.parametrize("name", ["meta", "hpu", "cuda:64"])
def test_devices_that_the_machine_does_not_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"device '{name}' (is not available|does not exist)"):
        _device.resolve(torch.device(name))


def test_the_index_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert _device.resolve("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="'cuda:2' does not exist: this machine has 2 of type cuda, numbered from 0"):
        _device.resolve("cuda:2")


def test_memory_of_the_cpu_is_that_of_the_machine_or_of_its_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    whole = _memory.total_memory(torch.device("cpu"))
    assert whole > 2**20
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "limit").write_text(f"{2**20}\n")
    monkeypatch.setattr(_memory, "_CGROUP_LIMITS", (str(tmp_path / "memory.max"), str(tmp_path / "none")))
    assert _memory.total_memory(torch.device("cpu")) >= whole
    monkeypatch.setattr(_memory, "_CGROUP_LIMITS", (str(tmp_path / "limit"),))
    assert _memory.total_memory(torch.device("cpu")) == 2**20
