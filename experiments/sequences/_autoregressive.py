"""A causal twin of the library's transformer with plain blocks: the same layers and sizes, left to right."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tauleap.data import Dataset
from tauleap.network.plain_block import PlainBlock
from tauleap.network.rotary import Rotation
from tauleap.training import Settings

_SITES_STD = 0.1
_CHECKPOINTS = 8
_BATCH = 256


class CausalBlock(PlainBlock):
    """A plain block that sees only the sites before and at its own."""

    def forward(self, h: Tensor, rotation: Rotation) -> Tensor:
        """Return the hidden states (B, D, width) after this layer."""
        images = self.local_norm(h).transpose(1, 2).unsqueeze(2)
        reach = self.local.weight.shape[-1] - 1
        mixed = F.conv2d(F.pad(images, (reach, 0)), self.local.weight, groups=h.shape[2])
        h = h + mixed.squeeze(2).transpose(1, 2)
        h = h + self.dropout(self._attend(self.attention_norm(h), rotation))
        return h + self.dropout(self.mlp(self.mlp_norm(h)))

    def _attend(self, h: Tensor, rotation: Rotation) -> Tensor:
        q, k, v = self.attention.qkv(h).unflatten(-1, (3, self.attention.heads, -1)).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(rotation.rotate(q), rotation.rotate(k), v, is_causal=True)
        return self.attention.out(h.transpose(1, 2).flatten(2))


class Autoregressive(nn.Module):
    """p(x) = product of p(x_i | x_1 ... x_{i-1}); the last state stands for the beginning of a row.

    Args:
        num_states: S with the state for the beginning.
        sites: The number of sites.
        width: of the model.
        depth: number of blocks.
        heads: of each attention.
        dropout: probability of dropping.
        end: The end state; None for rows of equal lengths.
    """

    def __init__(
        self, num_states: int, sites: int, *, width: int, depth: int, heads: int, dropout: float, end: int | None
    ) -> None:
        super().__init__()
        self.begin, self.end, self.head_size, self.length = num_states - 1, end, width // heads, sites
        self.input = nn.Embedding(num_states, width)
        self.sites = nn.Parameter(_SITES_STD * torch.randn(sites, width))
        self.blocks = nn.ModuleList(CausalBlock(width, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width, bias=False)
        self.output = nn.Linear(width, num_states, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, D + 1, S) of every site and of the one behind the last, at most the number of sites."""
        before = F.pad(x, (1, 0), value=self.begin)[:, : self.length]
        h = self.input(before) + self.sites[: before.shape[1]]
        rotation = Rotation.of_length(h.shape[1], self.head_size, like=h)
        for block in self.blocks:
            h = block(h, rotation)
        return self.output(self.norm(h))

    def nats(self, x: Tensor) -> Tensor:
        """Return -log p of each row, (B,); the sites behind the first end add nothing."""
        logits = self(x)
        logits[..., self.begin] = float("-inf")
        each = F.cross_entropy(logits.flatten(0, 1), x.flatten(), reduction="none").unflatten(0, x.shape)
        return (each * self.counted(x)).sum(1)

    def counted(self, x: Tensor) -> Tensor:
        """Return the sites up to the first end, which must be at the last site at the latest."""
        if self.end is None:
            return torch.ones_like(x, dtype=torch.bool)
        ended = (x == self.end).cumsum(1) - (x == self.end).long()
        counted = ended == 0
        counted[:, -1] = False  # every row has its end at the last site at the latest
        return counted

    @torch.no_grad()
    def bits(self, x: Tensor) -> Tensor:
        """Return -log2 p of each row."""
        self.eval()
        return torch.cat([self.nats(part.long()) for part in x.split(_BATCH)]).double() / math.log(2)

    @torch.no_grad()
    def sample(self, n: int, seed: int) -> Tensor:
        """Return rows, (n, sites)."""
        self.eval()
        generator = torch.Generator().manual_seed(seed)
        parts = []
        for first in range(0, n, _BATCH):
            x = torch.zeros(min(_BATCH, n - first), 0, dtype=torch.int64)
            done = torch.zeros(len(x), dtype=torch.bool)
            for site in range(self.length):
                if self.end is not None and (site == self.length - 1 or bool(done.all())):
                    rest = torch.full((len(x), self.length - site), self.end)
                    x = torch.cat((x, rest), 1)
                    break
                logits = self(x)[:, -1].double()
                logits[:, self.begin] = float("-inf")
                state = torch.multinomial(logits.softmax(-1), 1, generator=generator)
                if self.end is not None:
                    state[done] = self.end
                    done |= state[:, 0] == self.end
                x = torch.cat((x, state), 1)
            parts.append(x)
        return torch.cat(parts)


def trained(
    network: Autoregressive, rows: Dataset, settings: Settings, folder: Path, *, minutes: float, seed: int
) -> dict[str, Any]:
    """Train the network for this processor time, with the settings of the library, and return what was run.

    The learning rate follows the library's schedule with processor time in place of steps. A stopped run resumes from
    its last checkpoint, with the same rows in each step.

    Args:
        network: The network, which gets the averaged weights.
        rows: The training rows.
        settings: Batch size, learning rate, warm-up, betas, clipping and average of the weights.
        folder: The folder for checkpoints.
        minutes: Minutes of processor time.
        seed: The seed of weights, order and dropout.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    state, report = folder / "state.safetensors", folder / "report.json"
    done: dict[str, Any] = {"steps": 0, "seconds": 0.0}
    if report.exists():
        done = json.loads(report.read_text(encoding="utf-8"))
    optimizer = torch.optim.Adam(network.parameters(), settings.lr, betas=settings.betas, fused=True)
    weights = list(network.parameters())
    average = [weight.detach().clone() for weight in weights]
    if done["steps"]:
        _restore(load_file(state), weights, average, optimizer)
    x = rows.in_memory()
    budget, saved = 60 * minutes, done["seconds"]
    while done["seconds"] < budget:
        began = time.process_time()
        network.train()
        n, epoch_size = done["steps"], max(1, len(x) // settings.batch_size)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1000 * seed + n // epoch_size))
        first = n % epoch_size * settings.batch_size
        batch = x[order[first : first + settings.batch_size]].long()
        loss = network.nats(batch).sum() / network.counted(batch).sum()
        loss.backward()
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(weights, settings.clip)
        fraction = done["seconds"] / budget
        grown = min(1.0, (n + 1) / max(1, settings.warmup))
        optimizer.param_groups[0]["lr"] = settings.lr * grown * (0.01 + 0.99 * (1 + math.cos(math.pi * fraction)) / 2)
        optimizer.step()
        optimizer.zero_grad()
        decay = min(settings.ema, (2 + n) / (11 + n))
        torch._foreach_lerp_(average, [weight.detach() for weight in weights], 1 - decay)
        done = {"steps": n + 1, "seconds": done["seconds"] + time.process_time() - began}
        if done["seconds"] - saved > budget / _CHECKPOINTS or done["seconds"] >= budget:
            _save(state, weights, average, optimizer)
            report.write_text(json.dumps(done) + "\n", encoding="utf-8")
            saved = done["seconds"]
    with torch.no_grad():
        for weight, value in zip(weights, average, strict=True):
            weight.copy_(value)
    return {
        "steps": done["steps"],
        "processor_minutes": round(done["seconds"] / 60, 2),
        "weights": sum(weight.numel() for weight in weights),
    }


def _save(path: Path, weights: list[nn.Parameter], average: list[Tensor], optimizer: torch.optim.Optimizer) -> None:
    tensors = {}
    for number, (weight, mean) in enumerate(zip(weights, average, strict=True)):
        moments = optimizer.state[weight]
        tensors |= {f"{number}.weight": weight.detach(), f"{number}.average": mean}
        tensors |= {f"{number}.{name}": moments[name] for name in ("exp_avg", "exp_avg_sq", "step")}
    unfinished = path.with_suffix(".unfinished")
    save_file(tensors, unfinished)
    unfinished.replace(path)


def _restore(
    tensors: dict[str, Tensor], weights: list[nn.Parameter], average: list[Tensor], optimizer: torch.optim.Optimizer
) -> None:
    with torch.no_grad():
        for number, (weight, mean) in enumerate(zip(weights, average, strict=True)):
            weight.copy_(tensors[f"{number}.weight"])
            mean.copy_(tensors[f"{number}.average"])
            names = ("exp_avg", "exp_avg_sq", "step")
            optimizer.state[weight] = {name: tensors[f"{number}.{name}"] for name in names}
