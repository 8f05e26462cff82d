"""All knowledge of devices is in one module: a device is known by what it can do, not by its name."""

import ast
from pathlib import Path

import pytest
import torch

import tauleap
import tauleap as tl
from tauleap import _device, _draw, _memory

PACKAGE = Path(tauleap.__file__).parent
NAMES = {"cpu", "cuda", "mps", "xpu", "meta", "sim"}
MODULES = {"cuda", "mps", "xpu"}
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "_device.py"]


def literals(tree: ast.AST) -> list[tuple[int, str]]:
    """Names of types of devices, but for defaults of parameters, and keys of other programs' options."""
    allowed = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            allowed |= {id(default) for default in (*node.defaults, *node.kw_defaults)}
        if isinstance(node, ast.Dict):
            allowed |= {id(key) for key in node.keys}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES and id(node) not in allowed:
            found.append((node.lineno, f'"{node.value}"'))
        if isinstance(node, ast.Attribute) and node.attr in MODULES | {"is_cuda", "is_cpu", "is_mps"}:
            found.append((node.lineno, ast.unparse(node)))
    return found


def test_the_search_finds_literals():
    code = 'def f(x, device="cpu"):\n    return x.to("mps") if x.is_cuda else torch.cuda.synchronize()'
    assert {name for _, name in literals(ast.parse(code))} == {'"mps"', "x.is_cuda", "torch.cuda"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_one_module_names_types_of_devices(path):
    found = literals(ast.parse(path.read_text()))
    assert not found, f"{path.name} names a type of device, ask tauleap._device instead: {found}"


def test_capabilities_of_a_device_are_found_by_trying(sim):
    assert _device.has_float64(sim)
    assert _device.widest_dtype(sim) == torch.float64
    assert _device.exact_device(sim) == _device.generator_device(sim) == sim
    assert _device.new_generator(sim, 3).device == sim
    assert _device.exact(torch.ones(2, device=sim)).device == sim
    assert not _device.is_host(sim)
    assert _device.resolve() == _device.resolve("sim") == torch.device("sim")
    torch.sim.memory = 5, 7
    assert _memory.total_memory(sim) == 7


def test_a_device_without_float64_is_known_by_trying_as_well(sim32):
    assert not _device.has_float64(sim32)
    assert _device.widest_dtype(sim32) == torch.float32
    assert _device.exact_device(sim32) == _device.generator_device(sim32) == _device.CPU
    assert _device.new_generator(sim32, 3).device == _device.CPU
    values = _device.exact(torch.ones(2, device=sim32))
    assert (values.device, values.dtype) == (_device.CPU, torch.float64)
    moved = _device.moved_to(values, sim32)
    assert (moved.device, moved.dtype) == (sim32, torch.float32)
    with pytest.raises(ValueError, match="generator on sim:0 cannot draw in float64"):
        _draw.uniforms((2,), _device.CPU, torch.Generator(sim32))


def test_a_device_that_holds_float64_without_computing_in_it_has_none(sim, monkeypatch):
    def refuse(self, *_):
        raise RuntimeError("Required aspect fp64 is not supported on the device")

    _device.has_float64.cache_clear()
    monkeypatch.setattr(torch.Tensor, "add_", refuse)
    assert not _device.has_float64(sim)
    _device.has_float64.cache_clear()


def test_weights_in_float64_are_refused_by_a_device_without_it(sim32):
    process = tl.noise.Uniform(3, tl.noise.Constant(1.0))
    network = tl.network.ResidualMLP(3, (2,), width=8, depth=1).double()
    model = tl.Model(process, tl.denoise.NetworkDenoiser(network), shape=(2,))
    with pytest.raises(
        ValueError, match=r"weights in float64, which sim.* does not have: write torch.set_default_dtype"
    ):
        model.to("sim")
    with pytest.raises(ValueError, match=r"weights in float64, which sim.* does not have"):
        tl.fit(torch.zeros(9, 2, dtype=torch.int64), num_states=3, process=process, network=network, steps=1)


def test_states_of_default_generators_are_restored(each_sim):
    _device.seed_default(_device.CPU, 1)
    _device.seed_default(each_sim, 2)
    with _device.fork_default_rng(each_sim):
        first = torch.rand(3), torch.rand(3, device=each_sim)
    second = torch.rand(3), torch.rand(3, device=each_sim)
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))
    assert not torch.equal(first[0], first[1].cpu())


def test_without_the_device_its_name_is_refused():
    with pytest.raises(ValueError, match="'sim' is not available"):
        _device.resolve("sim")
