"""The automatic choice for data, and how the user overrides it."""

import itertools

import pytest
import torch

import tauleap as tl
from tauleap.choose import NETWORKS, OBJECTIVES, PROCESSES, choose
from tauleap.data import Dataset

PICTURES = Dataset(torch.arange(8 * 9 * 6).reshape(6, 8, 9) % 5, 5)
ROWS = Dataset(torch.arange(40).reshape(10, 4) % 3, 3)
TABLE = Dataset(torch.arange(40).reshape(20, 2) % 2, 3, sizes=torch.tensor([2, 3]))


@pytest.mark.parametrize(
    ("data", "ordinal", "noise", "network"),
    [
        (Dataset(torch.zeros(50, 5, dtype=torch.int64), 7), False, "Absorbing", "TableNetwork"),
        (Dataset(torch.zeros(50, 64, dtype=torch.int64), 65), False, "Absorbing", "SequenceTransformer"),
        (Dataset(torch.zeros(50, 8, 8, dtype=torch.int64), 17), True, "Absorbing", "TableNetwork"),
        (Dataset(torch.zeros(50, 1, 16, 16, dtype=torch.int64), 17), True, "Absorbing", "UNet"),
        (Dataset(torch.zeros(50, 1, 16, 16, dtype=torch.int64), 17), False, "Absorbing", "SequenceTransformer"),
        (Dataset(torch.zeros(50, 28, 28, dtype=torch.int64), 256), True, "Absorbing", "UNet"),
        (Dataset(torch.zeros(50, 3, 32, 32, dtype=torch.int64), 256), True, "Absorbing", "UNet"),
        (Dataset(torch.zeros(50, 32, 32, 3, dtype=torch.int64), 256), True, "Absorbing", "UNet"),
        (Dataset(torch.zeros(50, 3, 19, 43, dtype=torch.int64), 16), True, "Absorbing", "UNet"),
        (Dataset(torch.zeros(50, 5, 6, 7, dtype=torch.int64), 16), True, "Absorbing", "SequenceTransformer"),
    ],
)
def test_the_choice_suits_the_data_and_runs(data: Dataset, ordinal: bool, noise: str, network: str) -> None:
    choice = choose(data, ordinal=ordinal, minutes=0.5)
    assert type(choice.process).__name__ == noise
    assert [line.partition(":")[0] for line in choice.reasons] == ["noise", "network", "objective", "training"]
    denoiser = choice.denoiser()
    assert type(denoiser.network).__name__ == network
    reverse = tl.ReverseProcess(choice.process, denoiser)
    loss = tl.objective.CompleteElbo()(reverse, data.rows(torch.arange(2)), generator=torch.Generator().manual_seed(0))
    assert bool(torch.isfinite(loss.value).all())


@pytest.mark.parametrize(
    ("budget", "dropout"), [({"steps": 1000}, 0.0), ({"steps": 8000}, 0.2), ({"minutes": 3.0}, 0.4)]
)
def test_dropout_of_a_table_follows_from_the_passes_over_the_rows(budget: dict, dropout: float) -> None:
    rows = torch.arange(2).repeat(15_000)[:, None].expand(-1, 5).contiguous()
    choice = choose(Dataset(rows, 2), **budget)
    assert choice.denoiser().network.config["dropout"] == dropout
    assert (f"with dropout {dropout:g}" in choice.reasons[1]) == (dropout > 0)


@pytest.mark.parametrize(("rows", "decay"), [(60_000, 0.1), (5_000, 0.5), (200, 0.6)])
def test_weight_decay_of_a_table_follows_from_the_rows(rows: int, decay: float) -> None:
    data = Dataset(torch.arange(2).repeat(rows // 2)[:, None].expand(-1, 3).contiguous(), 2)
    assert choose(data, steps=10).settings.weight_decay == decay


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("network", [name for name in NETWORKS if name != "music-transformer"])
def test_every_name_builds_a_model_with_a_finite_loss(process: str, network: str) -> None:
    if network == "table" and process != "absorbing":
        with pytest.raises(ValueError, match="network='table' needs absorbing noise"):
            choose(PICTURES, ordinal=True, process=process, network=network)
        return
    for objective in OBJECTIVES:
        options = {"process": process, "network": network, "objective": objective, "width": 8, "depth": 1}
        if objective == "any-order" and process != "absorbing":
            with pytest.raises(ValueError, match="objective any-order is for Absorbing noise"):
                choose(PICTURES, ordinal=True, **options)
            continue
        choice = choose(PICTURES, ordinal=True, **options)
        assert choice.reasons[0] == f"noise: {process}, as given"
        assert choice.reasons[1].endswith("as given")
        assert choice.reasons[2] == f"objective: {objective}, as given"
        denoiser = choice.denoiser()
        assert denoiser.network.config["width"] == 8
        assert denoiser.network.config["depth"] == 1
        reverse = tl.ReverseProcess(choice.process, denoiser)
        value = choice.objective(reverse, PICTURES.rows(torch.arange(2)), generator=torch.Generator().manual_seed(0))
        assert bool(torch.isfinite(value.value).all())


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("states", [2, 5, 40, 256])
def test_noise_by_name_forgets_its_start(name: str, states: int) -> None:
    """At time 1 the marginal is within 0.003 of the prior in total variation, whatever the start."""
    data = Dataset(torch.arange(states).repeat(2)[:, None], states)
    process = choose(data, ordinal=True, process=name).process
    prior = process.prior().reshape(-1, process.num_states)[0]
    for start in (0, states // 2, states - 1):
        reached = process.kernel_from(torch.tensor([[start]]), torch.tensor(1.0)).double().flatten()
        assert float((reached - prior).abs().sum() / 2) < 3e-3


def test_uniform_and_rank_one_noise_keep_to_the_states_of_each_site() -> None:
    for name in ("absorbing", "uniform", "rank-one"):
        process = choose(TABLE, process=name).process
        assert bool((TABLE.rows(torch.arange(20)) < TABLE.sizes).all())
        prior = process.prior().expand(2, -1)
        assert float(prior[0, 2]) == 0.0
        if name == "uniform":
            assert prior[0, :2].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("data", "given", "error", "message"),
    [
        (ROWS, {"process": "gaussian"}, ValueError, "gaussian noise needs ordered values, but these are categories"),
        (TABLE, {"process": "birth-death", "ordinal": True}, ValueError, "the sites have different numbers of states"),
        (ROWS, {"process": "noise"}, ValueError, "process must be one of absorbing, uniform"),
        (ROWS, {"process": 3}, TypeError, "ForwardProcess"),
        (ROWS, {"network": "unet"}, ValueError, "unet needs images"),
        (ROWS, {"network": "mlp"}, ValueError, "network must be one of table, residual-mlp"),
        (ROWS, {"network": 3}, TypeError, "Module"),
        (PICTURES, {"network": "music-transformer"}, ValueError, "rows with one axis"),
        (PICTURES, {"network": "unet", "width": 6}, ValueError, "multiple of 4"),
        (ROWS, {"network": "sequence-transformer", "width": 7}, ValueError, "must be even"),
        (ROWS, {"network": torch.nn.Linear(1, 1), "depth": 2}, ValueError, "width and depth need a network by name"),
        (ROWS, {"objective": "elbo"}, ValueError, "objective must be one of any-order, complete, paper"),
        (ROWS, {"objective": 1}, TypeError, "Objective"),
        (ROWS, {"batch_size": 5, "pieces": 2}, ValueError, "batch_size must be a multiple of 2"),
        (ROWS, {"batch_size": 0}, ValueError, "batch_size must be"),
        (ROWS, {"lr": 0.0}, ValueError, "lr must be"),
        (ROWS, {"width": 0}, ValueError, "width must be"),
    ],
)
def test_contradictions_are_refused(data: Dataset, given: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        choose(data, **given)


def test_what_is_given_is_marked_and_the_rest_is_chosen() -> None:
    choice = choose(ROWS, width=24, batch_size=4, lr=0.5, precision="64-true")
    assert "a table network of width 24 (as given) and depth 2 with dropout 0.4, because 4 columns" in choice.reasons[1]
    shown = "training: batches of 4 rows (as given), learning rate 0.5 (as given), precision 64-true (as given)"
    assert choice.reasons[3] == shown
    assert (choice.settings.batch_size, choice.settings.lr, choice.settings.precision) == (4, 0.5, "64-true")


def test_a_chosen_batch_can_be_divided_among_devices() -> None:
    sizes = [choose(ROWS, pieces=pieces).settings.batch_size for pieces in (1, 3, 4, 16)]
    assert sizes == [10, 9, 8, 16]


def test_heads_divide_every_even_width() -> None:
    for width, network in itertools.product((2, 6, 34, 64, 100), ("sequence-transformer", "music-transformer")):
        built = choose(ROWS, network=network, width=width, depth=1).denoiser().network
        assert built.config["width"] == width
