"""exp(c R) for one generator R and many c, with small entries right.

The reverse rate divides by kernel entries, so an entry of 1e-25 must be right in relative terms; eigendecompositions
and ``torch.matrix_exp`` are right in absolute terms only. With ``lam`` the largest exit rate, ``M = I + R / lam`` is a
stochastic matrix and

    exp(c R) = sum_k Poisson(k; lam c) M^k                                                         (uniformization)

adds and multiplies nonnegative numbers only, so nothing cancels. The sum is taken at ``h = lam c / 2^n <= 4`` and the
result squared n times, which multiplies its relative error by 2^n: about 1e-11 where lam c = 10^4. Leaving out the
terms from k = 64 on changes no entry by more than 1e-48, so every entry above 1e-30 keeps its digits and the rest err
towards 0, which means unreachable.

Once a reversible chain has mixed so far that no entry is small, one product with the eigenvectors of the symmetrised
generator is as good and cheaper.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LARGEST_MEAN = 4.0
_STORED_POWERS = 16
_BLOCKS = 4
_SMALLEST_BY_EIGENVECTORS = 1e-6  # their absolute error of about 1e-15 is then about 1e-9 in relative terms


class MatrixExponential:
    """Tables made once from ``generator`` (S, S) float64; call with ``c`` (n,) for the (n, S, S) kernels.

    ``stationary`` is the law with which the generator is in detailed balance, if it is.
    """

    def __init__(self, generator: Tensor, stationary: Tensor | None = None) -> None:
        exit_rates = -generator.diagonal()
        self._fastest = float(exit_rates.max())
        if self._fastest > 0:
            step = generator / self._fastest
            step.diagonal().copy_((self._fastest - exit_rates) / self._fastest)
        else:
            step = torch.eye(len(generator), dtype=generator.dtype, device=generator.device)
        powers = [torch.eye(len(generator), dtype=generator.dtype, device=generator.device)]
        for _ in range(_STORED_POWERS):
            powers.append(powers[-1] @ step)
        self._block = powers.pop()
        self._powers = torch.stack(powers)
        self._mixed_from = math.inf
        if stationary is not None:
            self._diagonalise(generator, stationary)

    def __call__(self, c: Tensor) -> Tensor:
        """exp(c R) for each entry of ``c``."""
        mixed = c >= self._mixed_from
        if not bool(mixed.any()):
            return self._by_series(c)
        if bool(mixed.all()):
            return self._by_eigenvectors(c)
        size = self._block.shape[0]
        out = c.new_empty(len(c), size, size)
        out[mixed] = self._by_eigenvectors(c[mixed])
        out[~mixed] = self._by_series(c[~mixed])
        return out

    def _by_series(self, c: Tensor) -> Tensor:
        mean = self._fastest * c
        squarings = torch.ceil(torch.log2(mean / _LARGEST_MEAN)).clamp(min=0)
        mean = mean / torch.exp2(squarings)
        # Poisson weights by their recurrence: relative accuracy for every k, where lgamma would lose digits.
        orders = torch.arange(1, _BLOCKS * _STORED_POWERS, dtype=c.dtype, device=c.device)
        factors = torch.cat([torch.exp(-mean)[:, None], mean[:, None] / orders], dim=-1)
        weights = factors.cumprod(-1).reshape(len(c), _BLOCKS, _STORED_POWERS)
        out = torch.einsum("nk,kij->nij", weights[:, -1], self._powers)
        for block in reversed(range(_BLOCKS - 1)):
            out = out @ self._block + torch.einsum("nk,kij->nij", weights[:, block], self._powers)
        remaining = squarings.long().tolist()
        for _ in range(max(remaining, default=0)):
            again = [i for i, left in enumerate(remaining) if left > 0]
            squared = out[again] @ out[again]
            out[again] = squared / squared.sum(-1, keepdim=True)  # or the rounding of the sums doubles with each
            remaining = [left - 1 for left in remaining]
        return out

    def _diagonalise(self, generator: Tensor, stationary: Tensor) -> None:
        if float(stationary.min()) <= 2 * _SMALLEST_BY_EIGENVECTORS or self._fastest == 0:
            return  # some entry stays small for ever
        root = stationary.sqrt()
        symmetric = root[:, None] * generator / root
        self._eigenvalues, vectors = torch.linalg.eigh((symmetric + symmetric.mT) / 2)
        self._eigenvalues = self._eigenvalues.clamp(max=0.0)
        self._left, self._right = vectors / root[:, None], vectors.mT * root
        # The smallest entry of the symmetrised kernel grows as the chain mixes: bisect for when it is large enough.
        low, high = -20.0, 60.0
        for _ in range(20):
            middle = (low + high) / 2
            decay = torch.exp(self._eigenvalues * (2.0**middle / self._fastest))
            smallest = float(((vectors * decay) @ vectors.mT).min())
            low, high = (low, middle) if smallest >= _SMALLEST_BY_EIGENVECTORS else (middle, high)
        self._mixed_from = 2.0**high / self._fastest

    def _by_eigenvectors(self, c: Tensor) -> Tensor:
        return (self._left * torch.exp(self._eigenvalues * c[:, None])[:, None, :]) @ self._right
