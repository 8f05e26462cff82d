"""p(x0 | x_t) of sites with different numbers of states, without padding to the largest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tauleap import _device
from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, SiteMask, States, Time
from tauleap.denoise.denoiser import Denoiser, NetworkCall
from tauleap.denoise.parametrisation import Parametrisation
from tauleap.denoise.posterior import Logits, Posterior
from tauleap.network.ragged import RaggedLayout
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class RaggedLogits(Parametrisation):
    """Hold the logits of all sites in one axis.

    Args:
        flat: One logit per state of each site, in the order of the layout.
        layout: Where the states of each site are.
        shape: The shape of one row.
        num_states: S of the process, including the mask.
    """

    def __init__(
        self, flat: Float[Tensor, "batch total"], layout: RaggedLayout, shape: tuple[int, ...], num_states: int
    ) -> None:
        self._flat = flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
        self._layout, self._row_shape, self._num_states = layout, shape, num_states
        self.shape = torch.Size((len(flat), *shape, num_states))

    @property
    def logits(self) -> PerState:
        padded = self._layout.padded(self._flat, self._num_states)
        return padded.view(self.shape)

    @property
    def undefined(self) -> SiteMask:
        return ~self._layout.amax(self._flat).isfinite().view(self.shape[:-1])

    @property
    def device(self) -> torch.device:
        return self._flat.device

    def log_prob(self, x0: States, sites: Tensor | None = None, allowed: Tensor | None = None) -> PerSite:
        if allowed is not None:
            return super().log_prob(x0, sites, allowed)
        number = self._layout.sites
        if sites is None:
            sites = torch.arange(x0.numel(), device=x0.device)
        states, site = x0.reshape(-1), sites % number
        inside = torch.minimum(states, self._layout.sizes[site] - 1)
        entries = inside + self._layout.offsets[site] + sites // number * self._layout.total
        values = _RaggedLogProb.apply(self._flat, entries, sites, self._layout)
        return values.masked_fill(states > inside, float("-inf")).view(x0.shape)

    def at(self, sites: Tensor) -> Float[Tensor, "n states"]:
        return self._layout.rows(self._flat, sites, self._num_states)

    def parts(self, sites: Tensor) -> Iterator[tuple[slice | Tensor, Float[Tensor, "n states"]]]:
        widths = self._layout.widths
        if len(widths) == 1 or not _device.is_host(sites.device):  # which would wait for the number of sites in a part
            yield from super().parts(sites)
            return
        width_of = self._layout.width_of[sites % self._layout.sites]
        for width in widths:
            here = (width_of == width).nonzero().squeeze(-1)
            for part in chunks(len(here), width, sites.device):
                some = here[part]
                yield some, self._layout.rows(self._flat, sites[some], width)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> Logits:
        return Logits(change(self.logits))

    def uniform_at(self, sites: SiteMask) -> RaggedLogits:
        flat = self._flat.masked_fill(sites.flatten(1)[:, self._layout.site_of], 0.0)
        return RaggedLogits(flat, self._layout, self._row_shape, self._num_states)


class _RaggedLogProb(torch.autograd.Function):
    """Compute log p of entries of some sites, without keeping a tensor of the logits' size for the gradient.

    All sites are normalised, also for some of them: they have few states, and stay side by side in memory.
    """

    @staticmethod
    def forward(ctx: Any, flat: Tensor, entries: Tensor, sites: Tensor, layout: RaggedLayout) -> Tensor:
        total = layout.logsumexp(flat)
        ctx.save_for_backward(flat, entries, sites, total)
        ctx.layout = layout
        return flat.reshape(-1)[entries].sub_(total.reshape(-1)[sites])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        flat, entries, sites, total = ctx.saved_tensors
        layout, out = ctx.layout, torch.empty_like(flat)
        minus = torch.zeros_like(total).view(-1).index_add_(0, sites, gradient, alpha=-1).view_as(total)
        total, minus = (each.index_select(1, layout.order).unsqueeze(-1) for each in (total, minus))
        for group in layout.groups:
            here = group.of(out)
            torch.sub(group.of(flat), total[:, group.order], out=here).exp_().mul_(minus[:, group.order])
        out.view(-1).index_add_(0, entries, gradient)
        return out, None, None, None


class RaggedDenoiser(Denoiser):
    """Use the output of a network as logits of sites with different numbers of states.

    Args:
        network: A :class:`tauleap.network.TableNetwork`, or any module with a ``layout`` (a ``RaggedLayout``) and a
            ``shape``, called as ``network(x_t, t)``, which returns the logits of all sites in one axis.
        num_states: S of the process, including the mask of absorbing noise.

    Raises:
        TypeError: The network has no layout.
        ValueError: A site has more states than the process.

    >>> from tauleap.network import TableNetwork
    >>> denoiser = RaggedDenoiser(TableNetwork([2, 3], width=8, hidden=8), num_states=4)
    >>> denoiser(torch.tensor([[3, 3]]), 0.5).probs
    tensor([[[0.5000, 0.5000, 0.0000, 0.0000],
             [0.3333, 0.3333, 0.3333, 0.0000]]], grad_fn=<SoftmaxBackward0>)
    """

    def __init__(self, network: nn.Module, num_states: int) -> None:
        super().__init__()
        layout, shape = getattr(network, "layout", None), getattr(network, "shape", None)
        if not isinstance(layout, RaggedLayout) or shape is None:
            raise TypeError(
                f"network must have a layout of its states and a shape, as TableNetwork has, got "
                f"{type(network).__name__}: write NetworkDenoiser(network) for logits (B, *shape, S)"
            )
        if layout.largest > num_states:
            raise ValueError(
                f"num_states must be at least {layout.largest}, the largest size of a site, got {num_states}"
            )
        self._layout, self._shape = [layout], tuple(shape)  # in a list, so that it is not a second child
        self._call_network = NetworkCall(network, numbers=None)
        self.network, self.num_states = network, num_states

    @property
    def uses_time(self) -> bool:
        return self._call_network.uses_time

    def check(self, process: ForwardProcess) -> None:
        sizes = self._layout[0].sizes.cpu()
        own = (torch.arange(self.num_states) < sizes[:, None]).view(*self._shape, self.num_states)
        allowed = process.data_states.cpu()
        if process.num_states != self.num_states or not torch.equal(own, allowed.expand_as(own)):
            raise ValueError(
                f"the network has {sizes.tolist()[:8]} states per site, and the process has other data states: write "
                f"Absorbing({self.num_states}, LogLinear(), sizes=torch.tensor(network.config['sizes']))"
            )

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        flat = self._call_network(self.network, x_t, t, observed, condition)
        layout = self._layout[0]
        if flat.shape != (len(x_t), layout.total):
            raise ValueError(
                f"the network must return a tensor of shape (B, total) = ({len(x_t)}, {layout.total}), got "
                f"{tuple(flat.shape)}"
            )
        logits = RaggedLogits(flat, layout, tuple(x_t.shape[1:]), self.num_states)
        return Posterior(logits, over_data_states=True)
