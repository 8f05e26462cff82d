"""A forward process and a denoiser: everything that a generative model is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tauleap import _check
from tauleap.data import Dataset
from tauleap.data.form import Form
from tauleap.data.frame import is_frame
from tauleap.data.memory import Kind, read, restore
from tauleap.data.table import TableForm
from tauleap.denoise import Denoiser, Guided, Tempered
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.evaluate._mode import evaluating
from tauleap.network.labels import num_labels
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Ancestral, Sampler, sample, uniform_grid

_MOST_ROWS, _MOST_ENTRIES = 1024, 2**24
_END = 1e-3


class Model:
    """What training makes, and what sampling, completion and evaluation take.

    Args:
        process: x0 -> x_t.
        denoiser: x_t -> p(x0 | x_t).
        shape: of one datum, where it is known; kept with the model, so that samples have it.
        form: what the states mean, where they come from a file, a frame or texts.
        kind: what samples are given as: states as a tensor, a frame, or texts. It is what the model was fitted on.
        about: what is known of the model, as JSON can hold it; ``tauleap.fit`` puts its report here.

    >>> from tauleap import denoise, network, noise
    >>> process = noise.Uniform(8, noise.Constant(1.0))
    >>> model = Model(process, denoise.NetworkDenoiser(network.ResidualMLP(8, (3,))), shape=(3,))
    >>> model.reverse.rates(torch.zeros(1, 3, dtype=torch.int64), 0.5).shape
    torch.Size([1, 3, 8])
    >>> model.sample(2, steps=10, seed=0).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        process: ForwardProcess,
        denoiser: Denoiser,
        *,
        shape: Sequence[int] | None = None,
        form: Form | None = None,
        kind: Kind | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.reverse = ReverseProcess(process, denoiser)
        self.shape = None if shape is None else tuple(_check.integer("a side of shape", n, least=1) for n in shape)
        self.form = form
        self.kind = Kind() if kind is None else kind
        self.about: dict[str, Any] = dict(about or {})

    @property
    def process(self) -> ForwardProcess:
        """x0 -> x_t."""
        return self.reverse.process

    @property
    def denoiser(self) -> Denoiser:
        """x_t -> p(x0 | x_t)."""
        return self.reverse.denoiser

    @property
    def num_states(self) -> int:
        """S, of the process: with the mask of an absorbing one."""
        return self.process.num_states

    @property
    def num_labels(self) -> int | None:
        """How many class labels its network was built with, ``num_classes``; None where it has none."""
        return num_labels(getattr(self.denoiser, "network", None))

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next((p.device for p in self.reverse.parameters()), torch.device("cpu"))

    def sample(
        self,
        n: int,
        *,
        steps: int = 100,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        guidance: float = 1.0,
        progress: bool = False,
        states: bool = False,
    ) -> Any:
        """``n`` samples: int64 states (n, *shape), or a frame or a list of texts if the model was fitted on that.

        Args:
            n: how many.
            steps: of the reverse chain; more is better and slower.
            sampler: how a step is made, ``Ancestral()`` by default, the best for each evaluation of the network.
            grid: the times of the steps, in the place of ``steps`` equal ones from 1 to 0.001.
            temperature: the logits are divided by it (see :class:`tauleap.denoise.Tempered`).
            seed: the same seed gives the same samples on the same machine; None draws one.
            batch_size: how many are made at a time; as many as fit well if absent. It is part of what a seed means.
            condition: passed to the network, one entry a sample.
            guidance: how loud the labels in ``condition`` are: above 1 samples are more clearly of their label (see
                :class:`tauleap.denoise.Guided`).
            progress: shows a bar.
            states: give int64 states whatever the model was fitted on.
        """
        n = _check.integer("n", n, least=0)
        if self.shape is None:
            raise ValueError("the model does not know the shape of a datum: write Model(..., shape=...)")
        x = self._run(n, None, steps, sampler, grid, temperature, seed, batch_size, condition, guidance, progress)
        return x if states else restore(x, self.kind, self.form)

    def complete(
        self,
        x: Any,
        observed: Any = None,
        *,
        variants: int = 1,
        steps: int = 100,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        guidance: float = 1.0,
        progress: bool = False,
        states: bool = False,
    ) -> Any:
        """``x`` with what is not known drawn from the model given what is: prefixes, holes, empty cells.

        Args:
            x: rows (n, *shape) of what the model was fitted on. Missing cells (NaN, None, masked, ``missing`` of a
                Dataset) are filled in.
            observed: bool, like x or like one row: true where the value of x is known; or names of columns. With it the
                other cells are filled in; a cell that is missing is never known.
            variants: how many completions of each row, independent given what is known. The answer has a first axis of
                this length if it is not 1; a list for frames and texts.

        The other arguments are those of :meth:`sample`.
        """
        variants = _check.integer("variants", variants, least=1)
        data = self.encode(x)
        known = self._known(data, observed)
        rows = data.rows(torch.arange(len(data)))
        given = Observed(
            known.repeat(variants, *(1,) * (known.ndim - 1)), rows.repeat(variants, *(1,) * len(data.shape))
        )
        if condition is not None:
            condition = condition.repeat(variants, *(1,) * (condition.ndim - 1))
        number = variants * len(data)
        out = self._run(
            number, given, steps, sampler, grid, temperature, seed, batch_size, condition, guidance, progress
        )
        parts = out.reshape(variants, len(data), *data.shape)
        if states or self.kind.name == "tensor":
            return parts[0] if variants == 1 else parts
        index = x.index if is_frame(x) else None
        each = [restore(part, self.kind, self.form, index) for part in parts]
        return each[0] if variants == 1 else each

    def bits_per_dim(
        self,
        x: Any,
        observed: Any = None,
        *,
        samples: int = 16,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        progress: bool = False,
    ) -> Estimate[float]:
        """An upper bound on -log2 p(x) for each dimension of the rows ``x``, with its standard error.

        Missing cells are not counted. With ``observed`` it is that of the other cells given the observed ones. See
        :func:`tauleap.evaluate.bits_per_dim` for ``samples``.
        """
        data = self.encode(x)
        rows = data.rows(torch.arange(len(data))).to(self.device)
        known = None if observed is None else Observed(self._known(data, observed).to(self.device), rows)
        return bits_per_dim(
            self.reverse,
            rows,
            samples=samples,
            batch_size=self._rows_at_once() if batch_size is None else batch_size,
            observed=known,
            missing=None if data.missing is None else data.missing.to(self.device),
            condition=condition,
            generator=self._generator(seed),
            progress=progress,
        )

    def encode(self, x: Any) -> Dataset:
        """``x``, of what the model was fitted on, as rows of states."""
        allowed = self.process.data_states.reshape(-1, self.num_states).any(0)
        data = read(x, form=self.form, num_states=int(allowed.nonzero().max()) + 1)
        if self.shape is not None and data.shape != self.shape:
            raise ValueError(f"x must be rows of the shape {self.shape}, (n, *shape), got rows of {data.shape}")
        return data

    def to(self, device: torch.device | str) -> Model:
        """Moves it there; the model itself, not a copy."""
        self.reverse.to(device)
        return self

    def save(self, folder: str | os.PathLike[str], *, compact: bool = False) -> Path:
        """Writes ``config.json`` and ``model.safetensors`` for :func:`tauleap.load`; returns the folder.

        A folder that holds a model already gets this one in its place; one that holds something else is refused. With
        ``compact`` the weights take half of the bytes: they are rounded to 16 bits, and are float32 again when read.
        """
        from tauleap.pretrained.storage import save

        return save(self, folder, compact=compact)

    def _run(
        self,
        n: int,
        observed: Observed | None,
        steps: int,
        sampler: Sampler | None,
        grid: Iterable[float] | Tensor | None,
        temperature: float,
        seed: int | None,
        batch_size: int | None,
        condition: Tensor | None,
        guidance: float,
        progress: bool,
    ) -> Tensor:
        denoiser = self.denoiser
        if _check.positive("guidance", guidance) != 1:
            if condition is None or self.num_labels is None:
                raise ValueError(
                    "guidance is for labels: write condition=..., for a model whose network was built with num_classes"
                )
            denoiser = Guided(denoiser, guidance, unknown=self.num_labels)
        if _check.positive("temperature", temperature) != 1:
            denoiser = Tempered(denoiser, temperature)
        reverse = self.reverse if denoiser is self.denoiser else ReverseProcess(self.process, denoiser)
        shape = self.shape if observed is None else tuple(observed.values.shape[1:])
        with evaluating(reverse):
            drawn = sample(
                reverse,
                Ancestral() if sampler is None else sampler,
                (n, *(shape or ())),
                grid=uniform_grid(steps, end=_END) if grid is None else grid,
                final="sample",
                observed=observed,
                condition=condition,
                batch_size=max(1, self._rows_at_once() // (1 if guidance == 1 else 2))
                if batch_size is None
                else batch_size,
                generator=self._generator(seed),
                progress=progress,
            )
        return drawn.x0.cpu()

    def _known(self, data: Dataset, observed: Any) -> Tensor:
        """Which cells are known: those that are said to be, and are not missing."""
        present = torch.ones(data.x.shape, dtype=torch.bool) if data.missing is None else ~data.missing
        if observed is None:
            return present
        if is_frame(observed):
            observed = observed.to_numpy()
        elif isinstance(self.form, TableForm) and isinstance(observed, list | tuple | set):
            observed = self._named(observed, self.form)
        try:
            mask = torch.as_tensor(observed)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"observed must be a bool mask of shape {tuple(data.x.shape)} or {data.shape}, true where the value is "
                f"known, got {type(observed).__name__}: {error}"
            ) from error
        if mask.dtype != torch.bool or mask.shape not in (data.x.shape, data.x.shape[1:]):
            raise ValueError(
                f"observed must be a bool mask of shape {tuple(data.x.shape)} or {data.shape}, true where the value "
                f"is known, got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        return mask.cpu().expand(data.x.shape) & present

    def _named(self, observed: Any, form: TableForm) -> Any:
        """Names of columns as a mask of a row; what is no list of names as it is."""
        if not observed or not all(isinstance(name, str) for name in observed):
            return observed
        strangers = [name for name in observed if name not in form.columns]
        if strangers:
            raise ValueError(f"observed names {strangers[0]!r}; the columns are {', '.join(form.columns)}")
        return torch.tensor([name in observed for name in form.columns])

    def _rows_at_once(self) -> int:
        entries = math.prod(self.shape or (1,)) * self.num_states
        return max(1, min(_MOST_ROWS, _MOST_ENTRIES // entries))

    def _generator(self, seed: int | None) -> torch.Generator:
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(_check.integer("seed", seed, least=0))
        return generator

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"Model({type(self.process).__name__}, {type(self.denoiser).__name__}{shape})"
