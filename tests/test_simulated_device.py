"""The simulated device behaves as CUDA does: else tests on it would say nothing about an accelerator."""

import copy
import io

import pytest
import safetensors.torch
import torch
from torch import nn

from tauleap._draw import PartOfBatch, uniforms
from tests import simulated


@pytest.mark.parametrize(
    "mix",
    [
        lambda here, there: here + there,
        lambda here, there: torch.cat([here, there]),
        lambda here, there: there @ here,
        lambda here, there: there.add_(here),
        lambda here, there: here.add_(there),
        lambda here, there: here[0].add_(there[0]),
        lambda here, there: torch.where(there > 0, here, there),
        lambda here, there: torch.stack([here[0], there[0]]),
        lambda here, there: here.index_select(0, there.long()),
        lambda here, there: here[there.long()],
        lambda here, there: there.__setitem__(there > 0, here),
        lambda here, there: torch.add(there, there, out=here),
        lambda here, there: torch.rand(3, device="sim", generator=torch.Generator()),
        lambda here, there: torch.rand(3, generator=torch.Generator("sim")),
        lambda here, there: here.uniform_(generator=torch.Generator("sim")),
    ],
)
def test_operations_that_mix_devices_raise(sim, mix):
    with pytest.raises(RuntimeError, match=r"same device|generator"):
        mix(torch.ones(3), torch.ones(3, device="sim"))


def test_scalars_on_the_cpu_enter_elementwise_operations(sim):
    one, x = torch.tensor(1.0), torch.ones(3, device="sim")
    with simulated.waits() as counts, simulated.uploads() as uploads:
        for out in (x + one, one * x, torch.where(x > 0, one, x), x.clamp(max=one), x.mul_(one), torch.maximum(x, one)):
            assert out.device == sim
            assert isinstance(out, simulated.Simulated)
    assert not counts
    assert not uploads
    x[torch.tensor([0, 1])] = one  # indices of the CPU are copied
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("kind", "wait"),
    [
        ("item", lambda x: x[0].item()),
        ("item", lambda x: bool((x > 0).all())),
        ("item", lambda x: float(x.sum())),
        ("item", lambda x: torch.allclose(x, x)),
        ("nonzero", lambda x: x.nonzero()),
        ("nonzero", lambda x: torch.where(x > 0)),
        ("index", lambda x: x[x > 0]),
        ("index_put", lambda x: x.__setitem__(x > 0, torch.ones_like(x))),
        ("masked_select", lambda x: x.masked_select(x > 0)),
        ("unique", lambda x: x.unique()),
        ("unique", lambda x: x.unique(dim=0)),
        ("equal", lambda x: torch.equal(x, x)),
        ("repeat_interleave", lambda x: torch.arange(3, device="sim").repeat_interleave(x.long())),
        ("bincount", lambda x: x.long().bincount()),
        ("linalg", lambda x: torch.linalg.eigh(torch.diag(x))),
        ("to_cpu", lambda x: x.cpu()),
        ("to_cpu", lambda x: x.to("cpu", torch.float16)),
        ("to_cpu", lambda x: x.tolist()),
        ("to_cpu", lambda x: torch.empty(3).copy_(x)),
    ],
)
def test_every_wait_of_the_host_is_counted(sim, kind, wait):
    x = torch.ones(3, device="sim")
    with simulated.waits() as counts:
        wait(x)
    assert counts[kind] == counts.total() >= 1, counts


def test_other_work_is_not_counted(sim):
    x = torch.ones(3, device="sim")
    with simulated.waits() as counts, simulated.uploads() as uploads:
        x.masked_fill_(x > 0, 2.0)
        x[torch.zeros(2, dtype=torch.int64, device="sim")] = 0.0
        x.gather(0, x.long()).cumsum(0).sort()
        x.repeat_interleave(2)
        torch.arange(5, device="sim").repeat_interleave(
            torch.ones_like(x, dtype=torch.int64)[:1].expand(5), output_size=5
        )
        torch.full((), 3.0, device="sim").to("sim")
    assert not counts
    assert not uploads
    with simulated.uploads() as uploads:
        torch.tensor([1.0, 2.0], device="sim")
        torch.ones(4).to("sim")
        torch.ones(4).to("sim", non_blocking=True)
    assert uploads.total() == 2


def test_generators_have_seeds_and_states(sim):
    generator = torch.Generator("sim").manual_seed(3)
    assert generator.device == sim
    assert isinstance(generator, torch.Generator)
    assert generator.initial_seed() == 3
    assert isinstance(torch.Generator(), torch.Generator)
    assert torch.Generator().device.type == "cpu"
    state = generator.get_state()
    first = torch.randint(100, (8,), device="sim", generator=generator)
    assert first.tolist() == torch.randint(100, (8,), generator=torch.Generator().manual_seed(3)).tolist()
    generator.set_state(state)
    assert torch.equal(torch.randint(100, (8,), device="sim", generator=generator), first)
    generator.set_state(state)
    twin = copy.deepcopy(generator)
    assert torch.equal(torch.randint(100, (8,), device="sim", generator=twin), first)


def test_parts_of_a_batch_draw_on_the_device(sim):
    whole = torch.Generator("sim").manual_seed(7)
    second = PartOfBatch(1, 2, sim).manual_seed(7)
    assert second.device == sim
    assert (second.part, second.parts) == (1, 2)
    drawn = uniforms((2, 3), sim, second)
    assert torch.equal(drawn, uniforms((4, 3), sim, whole)[2:])
    assert PartOfBatch(0, 1).device.type == "cpu"


def test_default_draws_have_a_state_of_their_own(sim):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = torch.rand(4, device="sim")
    nn.functional.dropout(first, 0.5)
    assert torch.equal(torch.get_rng_state(), before)  # the CPU's has not been used
    torch.manual_seed(5)
    with torch.random.fork_rng(device_type="sim"):
        assert torch.equal(torch.rand(4, device="sim"), first)
    assert torch.equal(torch.rand(4, device="sim"), first)
    assert not torch.equal(torch.rand(4, device="sim"), first)


def test_outputs_are_resized(sim):
    out = torch.empty(0, device="sim")
    torch.add(torch.ones(2, 3, device="sim"), 1, out=out)
    assert out.shape == (2, 3)
    assert out.sum().item() == 12
    out.resize_(4)
    assert out.shape == (4,)
    assert (out + 1).shape == (4,)
    out.unsqueeze_(0)
    assert out.shape == (1, 4)


def test_modules_move_cast_and_learn(sim):
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.0), nn.Linear(4, 1))
    here = copy.deepcopy(net)
    weight = net.to("sim")[0].weight
    assert weight.device == sim
    assert isinstance(weight, nn.Parameter)
    x = torch.randn(5, 3)
    for each, data in ((net, x.to("sim")), (here, x)):
        optimizer = torch.optim.AdamW(each.parameters(), lr=0.1)
        each(data).square().sum().backward()
        nn.utils.clip_grad_norm_(each.parameters(), 1.0)
        optimizer.step()
    for there, ours in zip(net.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(there.cpu(), ours)
    assert net.double()[0].weight is weight
    assert (weight.dtype, weight.device) == (torch.float64, sim)
    assert net(x.to("sim", torch.float64)).dtype == torch.float64
    assert net.cpu()[0].weight.device.type == "cpu"


def test_views_share_memory_and_history(sim):
    x = torch.zeros(2, 3, device="sim", requires_grad=True)
    y = x * 1
    y[0].add_(1)
    y[:, 1:].mul_(2)
    assert y.tolist() == [[1, 2, 2], [0, 0, 0]]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1, 2, 2], [1, 2, 2]]


def test_device_contexts_and_availability(sim):
    with torch.device("sim"):
        assert torch.zeros(3).device == sim
        assert nn.Linear(2, 2).weight.device == sim
    assert torch.accelerator.is_available()
    assert torch.sim.is_available()
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
        torch.zeros(3, device="sim").numpy()


def test_without_the_fixture_the_device_is_not_available():
    assert not torch.accelerator.is_available() or torch.accelerator.current_accelerator().type != "sim"


def test_copies_share_nothing(sim):
    net = nn.Linear(3, 2).to("sim")
    twin = copy.deepcopy(net)
    assert isinstance(twin.weight, nn.Parameter)
    assert torch.equal(twin.weight, net.weight)
    with torch.no_grad():
        twin.weight.zero_()
    assert net.weight.any()
    assert copy.deepcopy(torch.ones(2, device="sim")).tolist() == [1, 1]


@pytest.mark.parametrize("where", [None, "cpu", "sim"])
def test_tensors_are_saved_and_loaded(sim, where):
    net = nn.Linear(3, 2).to("sim")
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "part": net.weight[0].detach()}, file)
    file.seek(0)
    state = torch.load(file, map_location=where, weights_only=True)
    assert all(value.device.type == (where or "sim") for value in state["net"].values())
    assert state["part"].tolist() == net.weight[0].tolist()
    other = nn.Linear(3, 2).to("sim")
    other.load_state_dict(state["net"])
    assert torch.equal(other.weight, net.weight)


def test_safetensors_hold_the_values(sim, tmp_path):
    net = nn.Linear(3, 2).to("sim")
    safetensors.torch.save_file(net.state_dict(), tmp_path / "net")
    state = safetensors.torch.load_file(tmp_path / "net")
    assert state["weight"].tolist() == net.weight.tolist()
    assert state["weight"].device.type == "cpu"
    net.load_state_dict(state)
    assert net.weight.device == sim


def test_autocast_rounds_products(sim):
    a = torch.full((3, 3), 1 + 2**-10, device="sim", requires_grad=True)
    with torch.autocast("sim", torch.bfloat16):
        product = a @ a
        assert product.dtype == torch.bfloat16
        assert (a + a).dtype == torch.float32
        assert nn.functional.linear(a, a).dtype == torch.bfloat16
        with torch.autocast("sim", enabled=False):
            assert (a @ a).dtype == torch.float32
    product.float().sum().backward()
    assert a.grad is not None
    assert a.grad.dtype == torch.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, dtype=torch.float64, device="sim"),
        lambda: torch.zeros(2, dtype=torch.float64).to("sim"),
        lambda: torch.zeros(2, device="sim").double(),
        lambda: torch.zeros(2, device="sim").sum(dtype=torch.float64),
        lambda: nn.Linear(2, 2).double().to("sim"),
        lambda: torch.rand(3, dtype=torch.float64, device="sim", generator=torch.Generator("sim")),
    ],
)
def test_a_device_without_float64_rejects_it(sim32, make):
    with pytest.raises(TypeError, match="float64"):
        make()
    assert torch.zeros(2, device="sim").dtype == torch.float32


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (torch.linalg.svd, "linalg"),
        (torch.linalg.svdvals, "linalg"),
        (torch.linalg.eig, "linalg"),
        (torch.linalg.eigvals, "linalg"),
        (torch.linalg.eigvalsh, "linalg"),
        (torch.linalg.matrix_exp, "linalg"),
        (torch.histc, "histc"),
    ],
)
def test_operations_that_look_at_their_numbers_are_waits(sim, operation, kind):
    x = torch.eye(3, device=sim)
    with simulated.waits() as found:
        operation(x)
    assert found[kind] >= 1


def test_a_generator_given_by_its_place_must_live_where_the_draw_is_made(sim):
    rates = torch.ones(3)
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'sim'"):
        torch.poisson(rates, torch.Generator(sim))
    with pytest.raises(RuntimeError, match="Expected a 'sim' device type for generator but found 'cpu'"):
        torch.poisson(rates.to(sim), torch.Generator())
    assert torch.poisson(rates.to(sim), torch.Generator(sim)).device == sim
