"""Several networks, each for an interval of times."""

import pytest
import torch
from torch import Tensor, nn

import tauleap as tl
from tauleap.denoise import Denoiser, NetworkDenoiser, TruncatedLogistic
from tauleap.network import ResidualMLP, TimeExperts, UNet
from tauleap.noise import Constant, Gaussian
from tauleap.objective import CompleteElbo
from tauleap.storage.config import IN_DENOISER, build, describe
from tauleap.testing import DenoiserContract

AT = [0.3, 0.6]
NUMBER = {0.0: 0, 0.29: 0, 0.3: 1, 0.45: 1, 0.6: 2, 1.0: 2}


def networks(count: int = 3) -> list[UNet]:
    """Alike in what they take and unlike in what they say."""
    torch.manual_seed(0)
    made = [
        UNet(
            6,
            1,
            width=4 * (1 + i),
            multipliers=(1,),
            attention_levels=(),
            dropout=0.0,
            mark_observed=True,
            num_classes=2,
        )
        for i in range(count)
    ]
    for network in made:
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return [network.double().eval() for network in made]


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(6, (6, 1, 4, 4), generator=generator)
    observed = torch.rand(x.shape, generator=generator) < 0.3
    times = torch.tensor([1.0, 0.29, 0.3, 0.0, 0.6, 0.45], dtype=torch.float64)
    return x, times, observed, torch.tensor([0, 1, 2, 0, 1, 2])


def test_each_sample_is_shown_to_the_network_of_its_time() -> None:
    """With its own mask and label, whatever else is in the batch; a time of ``at`` belongs to the later network."""
    parts = networks()
    whole, (x, t, observed, labels) = TimeExperts(parts, at=AT), batch()
    together = whole(x, t, observed=observed, condition=labels)
    for i, time in enumerate(t.tolist()):
        one = slice(i, i + 1)
        expected = parts[NUMBER[time]](x[one], t[one], observed=observed[one], condition=labels[one])
        torch.testing.assert_close(together[one], expected)
    assert not torch.allclose(together, parts[0](x, t, observed=observed, condition=labels))


@pytest.mark.parametrize("time", NUMBER)
def test_one_time_for_the_batch(time: float) -> None:
    parts = networks()
    x, _, observed, labels = batch()
    for t in (torch.tensor(time), torch.full((6,), time)):
        said = TimeExperts(parts, at=AT)(x, t, observed=observed, condition=labels)
        torch.testing.assert_close(said, parts[NUMBER[time]](x, t, observed=observed, condition=labels))
    torch.testing.assert_close(
        TimeExperts(parts, at=AT)(x, torch.tensor(time)), parts[NUMBER[time]](x, torch.tensor(time))
    )


def test_no_samples() -> None:
    nothing = torch.zeros(0, 1, 4, 4, dtype=torch.int64)
    assert TimeExperts(networks(), at=AT)(nothing, torch.zeros(0)).shape == (0, 1, 4, 4, 2)
    tables = TimeExperts([ResidualMLP(4, (2,), width=8) for _ in range(2)], at=[0.5])
    assert tables(nothing[:, 0, 0, :2], torch.zeros(0)).shape == (0, 2, 4)


class Plain(nn.Module):
    """Takes x and t alone, and remembers how t came."""

    def __init__(self, outputs: int = 6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs))
        self.strides: list[int] = []

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        self.strides.append(t.stride(0) if t.ndim else 0)
        return self.weight.expand(*x.shape, -1)


def test_networks_get_the_arguments_that_they_take() -> None:
    """As when they are called alone: no mask where there is no parameter for it, and an error for a missing label."""
    x = torch.zeros(2, 3, dtype=torch.int64)
    given = tl.Observed(torch.tensor([True, False, False]).expand(2, 3), x)
    denoiser = NetworkDenoiser(TimeExperts([Plain(), ResidualMLP(6, (3,), width=8, mark_observed=True)], at=[0.5]))
    for t in (0.2, 0.9, torch.tensor([0.2, 0.9])):
        assert denoiser(x, t, observed=given).shape == (2, 3, 6)
    with pytest.raises(TypeError, match="Plain takes no condition: give its forward a parameter"):
        denoiser(x, 0.2, condition=torch.zeros(2, dtype=torch.int64))


def test_one_time_is_handed_on_as_one() -> None:
    """So that a network embeds it once, whatever the batch."""
    part = Plain()
    NetworkDenoiser(TimeExperts([part, Plain()], at=[0.5]))(torch.zeros(4, 3, dtype=torch.int64), 0.2)
    assert part.strides == [0]


def test_an_unused_network_does_not_change_the_output() -> None:
    whole, (x, _, _, _) = TimeExperts(networks(2), at=[0.5]), batch()
    with torch.no_grad():
        next(whole.networks[1].parameters()).fill_(torch.inf)
    assert whole(x, torch.full((6,), 0.2)).isfinite().all()


def test_learning_at_some_times_leaves_the_other_networks_alone() -> None:
    """Their gradients are 0, and there: training over several processes waits for each of them."""
    whole, (x, _, _, _) = TimeExperts(networks(), at=AT), batch()
    whole(x, torch.full((6,), 0.45)).square().sum().backward()
    for number, network in enumerate(whole.networks):
        moved = [p.grad is not None and bool((p.grad != 0).any()) for p in network.parameters()]
        assert any(moved) == (number == 1)
        assert all(p.grad is not None for p in network.parameters())


def test_parts_that_were_trained_apart_have_the_bound_of_their_times() -> None:
    """Put together they have, at every time, the loss of the part that this time belongs to."""
    process, (early, late) = Gaussian(6, Constant(3.0), sigma_0=3.0, sigma_r=1.0), networks(2)
    x = batch()[0]

    def loss(network: torch.nn.Module, t: float) -> Tensor:
        reverse = tl.ReverseProcess(process, TruncatedLogistic(network, 6)).double()
        return CompleteElbo()(reverse, x, t=t, generator=torch.Generator().manual_seed(2)).value

    both = TimeExperts([early, late], at=[0.5])
    for t, network in ((0.1, early), (0.49, early), (0.5, late), (0.9, late)):
        torch.testing.assert_close(loss(both, t), loss(network, t))


def test_is_saved_with_a_model(tmp_path) -> None:
    process = Gaussian(6, Constant(3.0), sigma_0=3.0, sigma_r=1.0)
    model = tl.Model(process, TruncatedLogistic(TimeExperts(networks(), at=AT), 6), shape=(1, 4, 4))
    model.save(tmp_path / "model")
    found = tl.load(tmp_path / "model")
    assert found.num_labels == model.num_labels == 2
    x, t, _, labels = batch()
    expected = model.denoiser(x, t, condition=labels)
    torch.testing.assert_close(found.denoiser(x, t, condition=labels).logits, expected.logits)
    assert torch.equal(found.sample(3, steps=4, seed=0), model.sample(3, steps=4, seed=0))
    assert found.sample(2, steps=3, seed=0, condition=torch.tensor([0, 1]), guidance=2.0).shape == (2, 1, 4, 4)


@pytest.mark.usefixtures("as_users_call")
def test_invalid_lists_of_times_raise() -> None:
    parts = networks(2)
    for wrong in ([], [0.3, 0.6]):
        with pytest.raises(ValueError, match=r"one time fewer.*write TimeExperts\(\[early, late\], at=\[0.3\]\)"):
            TimeExperts(parts, at=wrong)
    with pytest.raises(ValueError, match="one time fewer"):
        TimeExperts(parts[:1], at=[])
    for wrong in ([0.6, 0.3], [0.3, 0.3], [0.3, 1.0]):
        with pytest.raises(ValueError, match=r"increasing times in \(0, 1\)"):
            TimeExperts(networks(), at=wrong)
    with pytest.raises(ValueError, match="a time of `at` must be"):
        TimeExperts(parts, at=[0.0])
    for networks_, at in ((parts, 0.3), (parts[0], [0.3]), ((part for part in parts), [0.3])):
        with pytest.raises(TypeError, match=r"must be a list, got .*: write TimeExperts"):
            TimeExperts(networks_, at=at)  # pyright: ignore[reportArgumentType]
    other = UNet(6, 1, width=4, multipliers=(1,), attention_levels=(), num_classes=5)
    with pytest.raises(ValueError, match=r"the same num_classes, got \[2, 5\]"):
        TimeExperts([parts[0], other], at=[0.3])
    with pytest.raises(ValueError, match=r"outputs of one shape per sample, got \(3, 6\), \(3, 7\)"):
        TimeExperts([Plain(6), Plain(7)], at=[0.3])(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0.1, 0.9]))
    with pytest.raises(TypeError, match="networks must be"):
        TimeExperts([parts[0], 3], at=[0.3])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="x must hold integers"):
        TimeExperts(parts, at=[0.3])(torch.zeros(1, 1, 4, 4), torch.tensor(0.2))


class TestTimeExperts(DenoiserContract):
    num_states = 4

    def make(self) -> Denoiser:
        return NetworkDenoiser(TimeExperts([ResidualMLP(4, (2,), width=8) for _ in range(2)], at=[0.5]))


def test_a_configuration_with_the_old_name_is_built() -> None:
    """Models that were saved before the class was renamed name it ``ByTime``."""
    network = TimeExperts([ResidualMLP(8, (3,)), ResidualMLP(8, (3,), width=16)], at=[0.3])
    description = describe(network, "network")
    assert description["class"] == "TimeExperts"
    built = build(description | {"class": "ByTime"}, {}, IN_DENOISER)
    assert isinstance(built, TimeExperts)
    assert describe(built, "network") == description
