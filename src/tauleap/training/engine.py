"""One optimizer step on any number of devices, and the state that a checkpoint stores.

Random numbers are drawn for the whole batch and then split by rank, and by part where gradients are accumulated. So the
gradient does not depend on the number of ranks and parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.single_device import SingleDeviceStrategy
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from tauleap import _device
from tauleap._draw import PartOfBatch
from tauleap._files import safe_read
from tauleap._seeds import derive_seed
from tauleap.data import Dataset
from tauleap.denoise import NetworkDenoiser, SequenceDenoiser
from tauleap.evaluate._mode import evaluating
from tauleap.model import Model
from tauleap.network.arguments import unwrapped
from tauleap.observed import Observed
from tauleap.storage.save import WEIGHTS, as_files, configuration
from tauleap.storage.weights import load_bytes
from tauleap.training import state
from tauleap.training.checkpoint import Checkpoint
from tauleap.training.ema import Ema
from tauleap.training.order import Order
from tauleap.training.ranks import largest, on_first
from tauleap.training.recipe import Batch, Recipe

STATE = "state.pt"
_NETWORK = "denoiser.network."


class Engine:
    """Hold the model on its devices, with its optimizer, the average of its weights and the order of the data.

    Args:
        fabric: The processes of the run.
        recipe: What is trained.
        model: The model, with its initial weights.
        data: The training rows.
        accumulate: Parts into which each rank's share of a batch is split. Default: 1.
        compile: Whether to compile the network. Default: false.

    Raises:
        ValueError: The batch size is not a multiple of the number of parts, or weights outside the network would not be
            trained.
        TypeError: The denoiser has no network.
    """

    def __init__(
        self, fabric: Fabric, recipe: Recipe, model: Model, data: Dataset, *, accumulate: int = 1, compile: bool = False
    ) -> None:
        settings = recipe.settings
        self.fabric, self.recipe, self.settings, self.model, self.data = fabric, recipe, settings, model, data
        pieces = fabric.world_size * accumulate
        if settings.batch_size % pieces:
            raise ValueError(
                f"batch_size must be a multiple of {pieces} (devices {fabric.world_size} x accumulate {accumulate}), "
                f"got {settings.batch_size}"
            )
        self._size = settings.batch_size // pieces
        if self._size % recipe.objective.samples_per_time:
            raise ValueError(
                f"samples_per_time of the objective is {recipe.objective.samples_per_time}, which must divide the "
                f"{self._size} samples per device and accumulation step: write another batch_size or samples_per_time"
            )
        self._parts = [fabric.global_rank * accumulate + piece for piece in range(accumulate)]
        where = _device.generator_device(fabric.device)
        self._generators = [PartOfBatch(part, pieces, where) for part in self._parts]
        self._order = Order(len(data), settings.seed)
        self._config = configuration(model)  # before the network is wrapped
        self._plain = _network_of(model)
        _device.check_weights(self._plain, fabric.device)
        model.reverse.to(fabric.device)
        on_first(fabric, self._check_network)
        network: Any = torch.compile(self._plain) if compile else self._plain
        self.network = fabric.setup_module(network)
        self._wrapped: nn.Module = self.network._forward_module  # the module that torch's state functions expect
        # Created after the network was moved: on some devices, and when sharded, its parameters are replaced.
        parameters = self._plain.parameters()
        # A fused step unscales gradients itself, after they were clipped: not with the scaler of 16-mixed.
        fused = getattr(fabric.strategy.precision, "scaler", None) is None
        numbers: dict[str, Any] = {"lr": settings.lr, "betas": settings.betas, "fused": fused}
        self.optimizer = (
            torch.optim.Adam(parameters, **numbers)
            if settings.weight_decay is None
            else torch.optim.AdamW(parameters, weight_decay=settings.weight_decay, **numbers)
        )
        self._fabric_optimizer: Any = fabric.setup_optimizers(self.optimizer)
        self._parameters = [p for p in self._plain.parameters() if p.requires_grad]
        # On one device in full precision Fabric's wrappers change nothing, but take as long as a small network.
        self._is_single = isinstance(fabric.strategy, SingleDeviceStrategy) and settings.precision in (
            "32-true",
            "64-true",
        )
        model.denoiser.network = network if self._is_single else self.network
        if not self._is_single and isinstance(model.denoiser, NetworkDenoiser | SequenceDenoiser):
            model.denoiser.set_precision(fabric.autocast)
        self.ema = Ema(self._parameters, settings.ema)

    def step(self, n: int) -> dict[str, Tensor]:
        """Make a step, and return the loss, its terms, and the norm of the gradient before clipping.

        Args:
            n: The number of the step, from 0.
        """
        values = self.backward(n)
        rate = self.settings.learning_rate(n)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.settings.clip is not None:
            values["gradient_norm"] = self._clip(self.settings.clip)
        (self.optimizer if self._is_single else self._fabric_optimizer).step()
        for parameter in self._parameters:
            parameter.grad = None
        self.ema.update(n + 1)
        return values

    def _clip(self, largest_norm: float) -> Tensor:
        """Scale the gradient down to a norm, and return the norm before."""
        if not self._is_single:
            norm: Any = self.fabric.clip_gradients(
                self.network, self._fabric_optimizer, max_norm=largest_norm, error_if_nonfinite=False
            )
            return norm.full_tensor() if isinstance(norm, DTensor) else norm  # of sharded weights
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients, foreach=True)
        nn.utils.clip_grads_with_norm_(self._parameters, largest_norm, norm, foreach=True)
        return norm

    def backward(self, n: int) -> dict[str, Tensor]:
        """Compute the gradient of a step's batch, and return loss and terms of this rank's part of the batch.

        Args:
            n: The number of the step, from 0.
        """
        seed, pieces = self.settings.seed, len(self._parts)
        _device.seed_defaults(self.fabric.device, derive_seed(seed, "dropout", n, self.fabric.global_rank))
        values: dict[str, Tensor] = {}
        for part, generator in zip(self._parts, self._generators, strict=True):
            index = self._order.take(n * self.settings.batch_size + part * self._size, self._size)
            if self.recipe.prepare is not None:
                generator.manual_seed(derive_seed(seed, "prepare", n))
            batch = self.batch(self.data, index, generator)
            batch = self._masked(batch, generator, n)
            generator.manual_seed(derive_seed(seed, "noise", n))
            more = part != self._parts[-1]
            with self.fabric.no_backward_sync(self.network) if more and not self._is_single else nullcontext():
                loss = self.recipe.objective(
                    self.model.reverse,
                    batch.x0,
                    observed=batch.observed,
                    missing=batch.missing,
                    condition=batch.condition,
                    generator=generator,
                )
                mean = loss.value.mean()
                scaled = mean if pieces == 1 else mean / pieces
                scaled.backward() if self._is_single else self.fabric.backward(scaled)
            losses = {"loss": mean.detach()} | {name: term.detach().mean() for name, term in loss.terms.items()}
            if pieces == 1:
                return losses
            for name, value in losses.items():
                values[name] = value / pieces + values[name] if name in values else value / pieces
        return values

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Prepare the model for sampling and evaluation inside the block: averaged weights, no dropout or gradients."""
        self.network.eval()
        try:
            with self.ema.swapped(), torch.no_grad():
                yield
        finally:
            self.network.train()

    def weights_are_finite(self) -> bool:
        """Return whether every weight and every average is finite."""
        tensors = [*self._plain.parameters(), *self.ema.averages]
        here = all(bool(torch.isfinite(tensor).all()) for tensor in tensors)
        return largest(self.fabric, [not here]) == [0]  # finite on every rank

    def files(self, step: int, more: dict[str, Any]) -> dict[str, bytes]:
        """Return the files of a checkpoint, on the first rank; every rank must call this.

        Args:
            step: The number of steps made.
            more: Further entries of the state.
        """
        first = self.fabric.is_global_zero
        rest = more | {
            "step": step,
            "position": {"epoch": step * self.settings.batch_size // len(self.data)}
            | {"row": step * self.settings.batch_size % len(self.data)},
            "seed": self.settings.seed,
            "rng": state.get_rng(self.fabric),
            "precision": self.fabric.strategy.precision.state_dict(),
            "optimizer": state.get_optimizer(self._wrapped, self.optimizer),
        }
        raw = state.get_weights(self._wrapped)
        stored = state.to_bytes(rest | {"weights": raw}) if first else b""
        with self.ema.swapped():
            averaged = {f"{_NETWORK}{name}": value for name, value in state.get_weights(self._wrapped).items()}
            published = as_files(self._config, self._beside_network() | averaged) if first else {}
        return published | {STATE: stored}

    def restore(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """Set the state to that of a checkpoint, and return it with the further entries of :meth:`files`.

        Args:
            checkpoint: A checkpoint of this recipe.
        """
        stored = state.from_bytes(checkpoint.read(STATE), checkpoint.folder / STATE)
        published = load_bytes(checkpoint.read(WEIGHTS), checkpoint.folder / WEIGHTS)
        with safe_read.explaining(checkpoint.folder, state.REMEDY):
            self._set_state(stored, published)
        return stored

    def _set_state(self, stored: dict[str, Any], published: dict[str, Tensor]) -> None:
        averaged = {key.removeprefix(_NETWORK): v for key, v in published.items() if key.startswith(_NETWORK)}
        state.set_weights(self._wrapped, averaged)
        self.ema.take_weights()
        state.set_weights(self._wrapped, stored["weights"])
        state.set_optimizer(self._wrapped, self.optimizer, stored["optimizer"])
        self.fabric.strategy.precision.load_state_dict(stored["precision"])
        state.set_rng(self.fabric, stored["rng"])

    def batch(self, data: Dataset, index: Tensor, generator: torch.Generator) -> Batch:
        """Return rows on the device, after the recipe's ``prepare``.

        Args:
            data: the dataset.
            index: positions of rows, int64 (n,).
            generator: the source of randomness of ``prepare``.
        """
        rows = data.batch(index, self.fabric.device)
        batch = Batch(rows.x, missing=rows.missing, condition=rows.condition)
        return batch if self.recipe.prepare is None else self.recipe.prepare(batch, generator)

    def _masked(self, batch: Batch, generator: torch.Generator, n: int) -> Batch:
        """Return the batch with the observed sites that the recipe's masking draws at step n.

        Sites that ``prepare`` has marked as observed stay observed, with the values that it gave them.
        """
        if self.recipe.masking is None:
            return batch
        generator.manual_seed(derive_seed(self.settings.seed, "masks", n))
        observed, closed = batch.observed, batch.missing  # closed: sites that the masking must not choose
        if observed is not None:
            closed = observed.mask if closed is None else observed.mask | closed
        mask = self.recipe.masking.draw(batch.x0, closed=closed, generator=generator)
        if observed is None:
            return replace(batch, observed=Observed(mask, batch.x0))
        return replace(batch, observed=Observed(mask | observed.mask, observed.fill(batch.x0)))

    def _check_network(self) -> None:
        """Evaluate the network once, so that an output of another shape is refused before anything is written."""
        generator = self._generators[0].manual_seed(derive_seed(self.settings.seed, "check"))
        batch = self.batch(self.data, torch.arange(min(2, len(self.data))), generator)
        with evaluating(self.model.reverse):
            self.model.reverse.posterior(batch.x0, 0.5, observed=batch.observed, condition=batch.condition)

    def _beside_network(self) -> dict[str, Tensor]:
        """Return the model's buffers outside its network."""
        return {key: v for key, v in self.model.reverse.state_dict().items() if not key.startswith(_NETWORK)}


def _network_of(model: Model) -> nn.Module:
    network = getattr(model.denoiser, "network", None)
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"the denoiser {type(model.denoiser).__name__} has no network to train: write NetworkDenoiser(network)"
        )
    # Fabric and ``compile`` wrap it again.
    network = model.denoiser.network = unwrapped(network)
    inside = {id(p) for p in network.parameters()}
    outside = [name for name, p in model.reverse.named_parameters() if id(p) not in inside]
    if outside:
        raise ValueError(
            f"only weights of denoiser.network are trained, but the model also has {outside}: move them there"
        )
    return network
