"""The table network begins with given distributions, and its dropout is that of ``nn.Dropout``."""

import pytest
import torch
from torch import nn

from tauleap.choose import choose, column_marginals
from tauleap.data import Dataset
from tauleap.network import TableNetwork
from tauleap.network.table import _Dropout
from tauleap.noise import Absorbing, LogLinear


def test_the_untrained_network_of_fit_predicts_the_marginals() -> None:
    """Also at masked sites in any company; a rare state has its own small probability at once."""
    rows = torch.tensor([[0, 2, 1]] * 97 + [[1, 0, 0]] * 3)
    data = Dataset(rows, 4, sizes=torch.tensor([2, 3, 4]))
    choice = choose(data, steps=10)
    assert type(choice.denoiser().network).__name__ == "TableNetwork"
    x = torch.tensor([[4, 4, 4], [1, 4, 0]])
    probs = choice.denoiser()(x, 0.5).probs[..., :4].double()
    assert torch.allclose(probs, column_marginals(data).expand_as(probs), atol=1e-6)


def test_states_that_the_process_alone_has_are_rare() -> None:
    data = Dataset(torch.tensor([[0, 1], [1, 0], [1, 1]] * 20), 2)
    denoiser = choose(data, process=Absorbing(6, LogLinear()), steps=10).denoiser()
    probs = denoiser(torch.full((1, 2), 5), 0.5).probs[0].detach().double()
    assert torch.allclose(probs[:, 1], torch.tensor(2 / 3).double(), atol=0.03)
    assert bool((probs[:, 2:5] > 0).all())
    assert float(probs[:, 2:5].max()) < 0.01


def test_begin_with_refuses_what_is_no_distribution_of_the_sites() -> None:
    network = TableNetwork([2, 3], width=8, hidden=8)
    probs = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    assert network.begin_with_(probs) is network
    for wrong, message in ((probs[:1], r"probs must be \(2, 3 or more\), got \(1, 3\)"), (probs[:, :2], "probs must")):
        with pytest.raises(ValueError, match=message):
            network.begin_with_(wrong)
    with pytest.raises(ValueError, match="positive at every state of a site"):
        network.begin_with_(torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]))


def test_dropout_keeps_the_mean_and_drops_the_fraction() -> None:
    torch.manual_seed(0)
    dropout, x = _Dropout(0.4), torch.ones(1000, 200, requires_grad=True)
    out = dropout(x)
    kept = out > 0
    assert abs(float(kept.double().mean()) - 0.6) < 4 * (0.24 / x.numel()) ** 0.5
    assert torch.allclose(out[kept], torch.tensor(1 / 0.6))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient, out.detach())
    assert torch.equal(dropout.eval()(x), x)
    assert isinstance(dropout, nn.Dropout)  # found by those who look for dropout
    assert torch.equal(_Dropout(0.0)(x), x)
