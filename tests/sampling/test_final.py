"""The end of a run of absorbing noise: masked sites are filled, and rows without one are not evaluated."""

import pytest
import torch
from torch import Tensor, nn

from tauleap import ReverseProcess
from tauleap.denoise import NetworkDenoiser
from tauleap.noise import Absorbing, LogLinear
from tauleap.sampling import Ancestral, sample
from tauleap.sampling.final import Final
from tauleap.testing.laws import assert_drawn_from, count

LOGITS = torch.tensor([0.0, 1.0, 2.0, 5.0])


class Fixed(nn.Module):
    rows = 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        return LOGITS.expand(*x.shape, 4)


@pytest.mark.parametrize("final", ["mode", "sample"])
def test_masked_sites_are_filled(final: Final) -> None:
    """The grid ends where few sites move, so that nearly all masks are left for the end; the last state is the mask."""
    network, start = Fixed(), torch.zeros(2000, 2, dtype=torch.int64)
    start[:500] = 3
    reverse = ReverseProcess(Absorbing(4, LogLinear()), NetworkDenoiser(network))
    found = sample(
        reverse,
        Ancestral(),
        (2000, 2),
        grid=[1.0, 1.0 - 1e-9],
        start=start,
        final=final,
        generator=torch.Generator().manual_seed(0),
    )
    assert bool((found.x0[500:] == 0).all())
    assert network.rows == 500
    assert found.info.evaluations == pytest.approx(0.25)
    if final == "mode":
        assert bool((found.x0[:500] == 2).all())
    else:
        law = torch.cat([LOGITS[:3].double().softmax(-1), torch.zeros(1, dtype=torch.float64)])
        assert_drawn_from(count(found.x0[:500].reshape(-1, 1), 4), law[None])
