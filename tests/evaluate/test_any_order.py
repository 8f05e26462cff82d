"""bits/dim of absorbing noise by numbers of masked sites: the exact mean over orders, with smaller errors."""

import math
from itertools import combinations

import torch

from tauleap.denoise import RaggedDenoiser
from tauleap.evaluate import bits_per_dim
from tauleap.network import TableNetwork
from tauleap.noise import Absorbing, LogLinear
from tauleap.objective import LogUniformTimes, UniformTimes
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess

SIZES = [2, 3, 2]


def _reverse(*, time: bool = False) -> ReverseProcess:
    torch.manual_seed(0)
    network = TableNetwork(SIZES, width=8, hidden=16, time=time)
    for parameter in (network.output.weight, network.output.bias):
        torch.nn.init.normal_(parameter)
    return ReverseProcess(Absorbing(4, LogLinear(), sizes=torch.tensor(SIZES)), RaggedDenoiser(network, 4))


@torch.no_grad()
def _exact(reverse: ReverseProcess, x0: torch.Tensor, free: tuple[int, ...]) -> float:
    """The bound in bits per free site, by all sets of masked sites."""
    total = 0.0
    for number in range(1, len(free) + 1):
        sets = list(combinations(free, number))
        for masked in sets:
            x = x0.clone()
            x[list(masked)] = 3
            log_probs = reverse.posterior(x[None], 0.5).log_probs[0]
            total -= float(sum(log_probs[d, x0[d]] for d in masked)) / number / len(sets)
    return total / len(free) / math.log(2)


def test_it_is_the_exact_mean_over_orders() -> None:
    reverse, x0 = _reverse(), torch.tensor([1, 2, 0])
    rows = x0.expand(2000, -1).contiguous()
    found = bits_per_dim(reverse, rows, samples=4, generator=torch.Generator().manual_seed(0))
    assert abs(found.value - _exact(reverse, x0, (0, 1, 2))) < 4 * found.stderr
    mask = torch.zeros_like(rows, dtype=torch.bool)
    mask[:, 1] = True
    given = bits_per_dim(
        reverse, rows, samples=4, observed=Observed(mask, rows), generator=torch.Generator().manual_seed(0)
    )
    assert abs(given.value - _exact(reverse, x0, (0, 2))) < 4 * given.stderr


def test_its_standard_error_is_below_that_of_times() -> None:
    reverse = _reverse()
    rows = torch.tensor([[1, 2, 0]]).expand(2000, -1).contiguous()
    by_number, by_time = (
        bits_per_dim(reverse, rows, samples=4, times=times, generator=torch.Generator().manual_seed(0))
        for times in (None, UniformTimes())
    )
    assert by_number.stderr < 0.7 * by_time.stderr
    assert abs(by_number.value - by_time.value) < 4 * by_time.stderr


def test_errors_of_single_rows_are_not_too_small() -> None:
    reverse = _reverse()
    rows = torch.tensor([[1, 2, 0]]).expand(3000, -1).contiguous()
    found = bits_per_dim(reverse, rows, samples=6, per_datapoint=True, generator=torch.Generator().manual_seed(0))
    assert float(found.stderr.square().mean().sqrt()) > 0.9 * float(found.value.std())


def test_a_network_that_takes_t_keeps_the_bound_of_times() -> None:
    reverse, rows = _reverse(time=True), torch.tensor([[1, 2, 0]]).expand(50, -1).contiguous()
    default, given = (
        bits_per_dim(reverse, rows, times=times, generator=torch.Generator().manual_seed(0))
        for times in (None, LogUniformTimes())
    )
    assert default == given
