"""The joint distribution of some columns given conditions on others, from network evaluations instead of samples.

Under absorbing noise one evaluation returns p(x0 of a site | the known sites), with all others masked. Several sites
follow from the chain rule: the second one given each state of the first, and so on. A condition on one value is a known
site. A condition on several values is a mixture over the states a that it allows,

    p(x | A) = sum_a p(a) w(a) p(x | a) / sum_a p(a) w(a),

with w(a) the fraction of the values of the state that are allowed: a sum over all combinations of states if they are
few, or else importance-weighted draws as in ``sampling.conditions``. For other noise the distribution is counted in
samples, weighted by w.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device
from tauleap._files.printable import one_line
from tauleap._shapes import States
from tauleap.data.format import Format
from tauleap.data.table.columns.best import state_labels
from tauleap.data.table.columns.dependency import Dependency
from tauleap.data.table.format import TableFormat
from tauleap.denoise.on_device import moved
from tauleap.evaluate._mode import evaluating
from tauleap.given import GivenColumns
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling.conditions import weigh_conditions

_MOST_EVALUATIONS, _MOST_ENTRIES = 2**22, 2**25
"""Combinations of states and conditions: those of all columns but the last are evaluated, and all are in memory."""


@dataclass(frozen=True)
class Joint:
    """Hold the distribution of some sites.

    Args:
        probs: The probabilities, one axis per site.
        stderr: Their standard errors; 0 where nothing was drawn.
        effective_size: The number of independent rows that they come from; None where nothing was drawn.
        given: The probability of the conditions; None where it was not computed.
    """

    probs: Tensor
    stderr: Tensor
    effective_size: float | None
    given: float | None


def joint_of_sites(
    reverse: ReverseProcess,
    shape: tuple[int, ...],
    sites: Sequence[int],
    sizes: Sequence[int],
    sets: Mapping[int, Float[Tensor, " states"]],
    *,
    samples: int,
    batch_size: int,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Joint:
    """Return the joint distribution of some sites under absorbing noise.

    Args:
        reverse: The reverse process.
        shape: The shape of one row.
        sites: Positions in the flattened row, in the order of the chain rule.
        sizes: The number of states of each of these sites.
        sets: Weights of the states of the sites with conditions, by position.
        samples: Combinations of conditioned states up to which all are evaluated, and otherwise the number of draws.
        batch_size: Rows per evaluation.
        condition: The input of a conditional network, with one entry. Default: none.
        generator: The source of randomness. Default: that of PyTorch.

    Raises:
        ValueError: No row can fulfil the conditions, or there are too many combinations of states.
    """
    entries = math.prod(sizes)
    contexts = math.prod(int((weights > 0).sum()) for weights in sets.values())
    drawn = contexts > samples
    together = entries * min(contexts, samples)
    if together > min(_MOST_ENTRIES, _MOST_EVALUATIONS * max(1, sizes[-1])):
        fewer = f", or write samples={max(1, min(contexts, samples) // 10)}" if min(contexts, samples) > 1 else ""
        raise ValueError(
            f"the columns have {entries:,} combinations of states, under {min(contexts, samples):,} combinations of "
            f"conditions, which is too many: write fewer columns in a call{fewer}"
        )
    chain = _Chain(reverse, shape, batch_size, condition)
    with evaluating(reverse):
        if drawn:
            weighted = weigh_conditions(
                reverse,
                (samples, *shape),
                sets,
                condition=repeated(condition, samples),
                batch_size=batch_size,
                generator=generator,
            )
            x, known = weighted.observed.values.flatten(1).cpu(), weighted.observed.mask.flatten(1).cpu()
            log_weight = weighted.log_weight
        else:
            x, known, log_weight = chain.every_context(sets)
        probs = chain.joint(x, known, sites, sizes)
    return _mixture(probs, log_weight, drawn=drawn)


def repeated(condition: Tensor | None, n: int) -> Tensor | None:
    """Return the condition of one row for n rows.

    Args:
        condition: One entry; None for none.
        n: The number of rows.
    """
    return None if condition is None else condition.expand(n, *condition.shape[1:])


def counted_joint(
    x: States,
    sites: Sequence[int],
    sizes: Sequence[int],
    sets: Mapping[int, Float[Tensor, " states"]],
) -> Joint:
    """Return the joint distribution of some sites in samples, weighted by the conditions.

    Args:
        x: The samples, (n, *shape).
        sites: Positions in the flattened row.
        sizes: The number of states of each of these sites.
        sets: Weights of the states of the sites with conditions, by position.

    Raises:
        ValueError: No sample fulfils the conditions.
    """
    flat = x.flatten(1)
    weight = torch.ones(len(flat), dtype=torch.float64)
    for site, weights in sets.items():
        weight *= weights.to(torch.float64)[flat[:, site]]
    if not bool((weight > 0).any()):
        raise ValueError(
            f"none of {len(flat):,} samples fulfils all conditions: write a larger samples=, or use wider ranges"
        )
    place = torch.zeros(len(flat), dtype=torch.int64)
    for site, size in zip(sites, sizes, strict=True):
        place = place * size + flat[:, site]
    # The indicators of the states, whose weighted mean has the variance of a ratio of two sums.
    total = weight.sum()
    entries = math.prod(sizes)
    probs = torch.zeros(entries, dtype=torch.float64).index_add_(0, place, weight) / total
    squares = torch.zeros(entries, dtype=torch.float64).index_add_(0, place, weight.square())
    variance = squares * (1 - 2 * probs) + probs.square() * weight.square().sum()
    stderr = variance.clamp(min=0).sqrt() / total
    effective = float(total.square() / weight.square().sum())
    # A state in none or all of the samples is not certain: at least the error of one more sample with it and without.
    added = (probs * effective + 1) / (effective + 2)
    stderr = stderr.maximum((added * (1 - added) / effective).sqrt())
    return Joint(probs.reshape(*sizes), stderr.reshape(*sizes), effective, None)


@dataclass(frozen=True)
class _Chain:
    """Evaluate the conditional distributions of single sites, with all unknown sites masked."""

    reverse: ReverseProcess
    shape: tuple[int, ...]
    batch_size: int
    condition: Tensor | None

    def conditional(self, x: Tensor, known: Tensor, site: int) -> Float[Tensor, "n states"]:
        """Return p(x0 of the site | the known sites) of each row."""
        device, parts = self.reverse.device, []
        for rows in torch.arange(len(x)).split(self.batch_size):
            mask = known[rows].reshape(-1, *self.shape).to(device)
            own = x[rows].reshape(mask.shape).to(device)
            masked = own.masked_fill(~mask, self.reverse.process.mask or 0)
            condition = moved(repeated(self.condition, len(rows)), device)
            posterior = self.reverse.posterior(masked, 1.0, observed=Observed(mask, own), condition=condition)
            places = torch.arange(len(rows), device=device) * x.shape[1] + site
            parts.append(_device.exact_on_cpu(posterior.at(places)).softmax(-1))
        return torch.cat(parts)

    def every_context(self, sets: Mapping[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return all combinations of allowed states of the conditioned sites, with the logarithms of their weights."""
        x = torch.zeros(1, math.prod(self.shape), dtype=torch.int64)
        known, log_weight = torch.zeros_like(x, dtype=torch.bool), torch.zeros(1, dtype=torch.float64)
        for site, weights in sorted(sets.items(), key=lambda item: int((item[1] > 0).sum())):
            probs = self.conditional(x, known, site) * weights.to(torch.float64)
            states = (weights > 0).nonzero().flatten()
            log_weight = (log_weight[:, None] + probs[:, states].log()).flatten()
            x, known = _extended(x, known, site, states)
            possible = log_weight > -math.inf
            if not bool(possible.any()):
                raise ValueError("under the model no row can fulfil all conditions at once: leave one of them out")
            x, known, log_weight = x[possible], known[possible], log_weight[possible]
        return x, known, log_weight

    def joint(self, x: Tensor, known: Tensor, sites: Sequence[int], sizes: Sequence[int]) -> Tensor:
        """Return the joint distribution of the sites given each context, (contexts, *sizes)."""
        contexts = len(x)
        probs = torch.ones(contexts, 1, dtype=torch.float64)
        for place, (site, size) in enumerate(zip(sites, sizes, strict=True)):
            own = self.conditional(x, known, site)[:, :size].reshape(contexts, -1, size)
            probs = (probs[:, :, None] * own).flatten(1)
            if place + 1 < len(sites):
                x, known = _extended(x, known, site, torch.arange(size))
        return probs.reshape(contexts, *sizes)


def _extended(x: Tensor, known: Tensor, site: int, states: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row once for each of some states of a site."""
    x, known = (each.repeat_interleave(len(states), 0) for each in (x, known))
    x[:, site], known[:, site] = states.repeat(len(x) // len(states)), True
    return x, known


def _mixture(probs: Tensor, log_weight: Tensor, *, drawn: bool) -> Joint:
    """Return the weighted mean over contexts; it has an error only if they were drawn."""
    given = float(log_weight.logsumexp(0).exp()) / (len(log_weight) if drawn else 1)
    weight = (log_weight - log_weight.max()).exp()
    weight = (weight / weight.sum()).reshape(-1, *(1,) * (probs.ndim - 1))
    mean = (weight * probs).sum(0)
    if not drawn:
        return Joint(mean, torch.zeros_like(mean), None, given)
    concentration = float(weight.square().sum())
    if concentration > 1 - 1e-9:  # one row has all the weight
        return Joint(mean, torch.full_like(mean, math.inf), 1.0, given)
    stderr = ((weight * (probs - mean)).square().sum(0) / (1 - concentration)).sqrt()
    return Joint(mean, stderr, 1 / concentration, given)


@dataclass(frozen=True)
class Question:
    """Hold the columns of a question and its conditions as sites and sets of states.

    Args:
        sites: Positions of the columns in the flattened row.
        names: Their names, or their positions for data without names.
        labels: The labels of the states of each.
        sets: Weights of the states of the sites with conditions, by position.
    """

    sites: tuple[int, ...]
    names: tuple[Any, ...]
    labels: tuple[Sequence[Any], ...]
    sets: Mapping[int, Tensor]

    @classmethod
    def of(
        cls,
        process: ForwardProcess,
        form: Format | None,
        shape: tuple[int, ...],
        columns: Any,
        given: Mapping[Any, Any],
        dependencies: Sequence[Dependency] = (),
    ) -> Question:
        """Return the question with these columns and conditions.

        Args:
            process: The noise of the model.
            form: The format of the model.
            shape: The shape of one row.
            columns: A name or position, or a list of them.
            given: Conditions by name or position.
            dependencies: Columns that follow from others, which conditions must not contradict. Default: none.

        Raises:
            TypeError: The conditions are not a mapping.
            ValueError: A column is unknown, or is named twice, or a condition cannot be fulfilled.
        """
        chosen = tuple(columns) if isinstance(columns, list | tuple) else (columns,)
        if not chosen:
            raise ValueError("columns is empty: write the name of a column or more")
        if not isinstance(given, Mapping):
            raise TypeError(f"given must be a mapping such as {{'age': (30, 40)}}, got {type(given).__name__}")
        if isinstance(form, TableFormat):
            places = {name: site for site, name in enumerate(form.site_names)}
        else:
            places = {site: site for site in range(math.prod(shape))}
        for name in chosen:
            _check_column(name, places, isinstance(form, TableFormat))
        repeated = [name for place, name in enumerate(chosen) if name in chosen[:place]]
        both = repeated or [name for name in chosen if name in given]
        if both:
            where = "twice in columns" if repeated else "in columns and in given"
            raise ValueError(f"{both[0]!r} is {where}: leave one of them out")
        sites = tuple(places[name] for name in chosen)
        allowed = process.data_states.cpu().expand(*shape, -1).reshape(-1, process.num_states)
        if isinstance(form, TableFormat):
            sets = GivenColumns.of(form, given, process.num_states, dependencies).sets if given else {}
            labels = tuple(state_labels(form.encoder.columns[form.encoder.sites[site]]) for site in sites)
        else:
            sets = {places[_check_column(name, places, False)]: _states(name, given[name], allowed) for name in given}
            labels = tuple(range(int(allowed[site].nonzero().max()) + 1) for site in sites)
        return cls(sites, chosen, labels, sets)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of states of each column."""
        return tuple(map(len, self.labels))

    def observed(self, shape: tuple[int, ...], n: int) -> Observed | None:
        """Return the sites whose conditions allow one state, as observed sites of n rows; None if there are none.

        Args:
            shape: The shape of one row.
            n: The number of rows.
        """
        mask = torch.zeros(math.prod(shape), dtype=torch.bool)
        values = torch.zeros_like(mask, dtype=torch.int64)
        for site, weights in self.sets.items():
            if int((weights > 0).sum()) == 1:
                mask[site], values[site] = True, int(weights.argmax())
        if not bool(mask.any()):
            return None
        return Observed(mask.reshape(shape), values.reshape(shape).expand(n, *shape))

    def frame(self, joint: Joint) -> Any:
        """Return a distribution as a frame with a row per value or combination of values.

        Args:
            joint: The distribution of the columns.
        """
        import pandas

        if len(self.sites) == 1:
            index = pandas.Index(list(self.labels[0]), name=self.names[0])
        else:
            index = pandas.MultiIndex.from_product([list(each) for each in self.labels], names=self.names)
        columns = {"probability": joint.probs.flatten().numpy(), "stderr": joint.stderr.flatten().numpy()}
        frame = pandas.DataFrame(columns, index=index)
        if joint.effective_size is not None:
            frame.attrs["effective_sample_size"] = joint.effective_size
        if joint.given is not None:
            frame.attrs["probability_of_given"] = joint.given
        return frame


def _check_column(name: Any, places: Mapping[Any, int], is_table: bool) -> Any:
    """Return the name of a column or the position of a site; raise a ValueError for an unknown one."""
    if isinstance(name, Hashable) and not isinstance(name, bool) and name in places:
        return name
    if is_table:
        known = one_line(", ".join(map(str, places)), most=300)
        raise ValueError(f"there is no column {name!r}: write one of {known}")
    raise ValueError(f"there is no site {name!r}: write its position in the flattened row, 0 to {len(places) - 1}")


def _states(name: Any, value: Any, allowed: Tensor) -> Tensor:
    """Return the weights of the states that a condition on a site of an array allows."""
    weights = torch.zeros(allowed.shape[1], dtype=torch.float64)
    for state in value if isinstance(value, list) else [value]:
        whole = not isinstance(state, bool) and isinstance(state, Integral)
        if not whole or not 0 <= int(state) < len(weights) or not bool(allowed[name, int(state)]):
            most = int(allowed[name].nonzero().max())
            raise ValueError(f"given {name}: {state!r} is not a state of this site: write 0 to {most}, or a list")
        weights[int(state)] = 1.0
    if not bool(weights.any()):
        raise ValueError(f"given {name}: the list of states is empty: write one state or more")
    return weights
