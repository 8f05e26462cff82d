"""exp(c R) for one generator R and many c, with small entries right.

The reverse rate divides by kernel entries, so an entry of 1e-25 must be right in relative terms; eigendecompositions
and ``torch.matrix_exp`` are right in absolute terms only. With ``lam`` the largest exit rate, ``M = I + R / lam`` is a
stochastic matrix and

    exp(c R) = sum_k Poisson(k; lam c) M^k                                                         (uniformization)

adds and multiplies nonnegative numbers only, so nothing cancels. Matrices ``E_j`` at ``lam c = j / 4`` are kept for
j < n, and ``E_n, E_2n, ...`` beyond them; the sum is taken for what is left over, at most 1/4, and each kernel is the
product of these two or three. Where lam c is beyond the last of them, the kernel of ``c / 2^k`` is squared k times,
which multiplies its relative error by 2^k: about 1e-11 where lam c = 10^4. Leaving out the terms from k = 32 on changes
no entry of a factor by more than 1e-54, so every entry above 1e-30 keeps its digits and the rest err towards 0, which
means unreachable.

Once a reversible chain has mixed so far that no entry is small, one product with the eigenvectors of the symmetrised
generator is as good as squaring, and cheaper.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_APART = 0.25  # a power of 2, so that what is left over is exact
_TERMS = 32
_TINY = torch.finfo(torch.float64).tiny
_MOST_KEPT = 2**10
_KEPT_ENTRIES = 2**20
_FAR_KEPT_ENTRIES = 2**22
_MOST_FAR_KEPT = 48  # beyond it the relative errors of so many products count
_AT_ONCE = 2**16  # entries of what is made on the way: they stay in the cache
_SMALLEST_BY_EIGENVECTORS = 1e-6  # their absolute error of about 1e-15 is then about 1e-9 in relative terms


class MatrixExponential:
    """Compute kernels (n, S, S) for amounts of noise (n,), from tables of ``generator`` (S, S) in float64.

    ``stationary`` is the law with which the generator is in detailed balance, if it is.
    """

    def __init__(self, generator: Tensor, stationary: Tensor | None = None) -> None:
        self._size, self.device = len(generator), generator.device
        exit_rates = -generator.diagonal()
        self._fastest = float(exit_rates.max())
        identity = torch.eye(self._size, dtype=generator.dtype, device=generator.device)
        step = identity
        if self._fastest > 0:
            step = generator / self._fastest
            step.diagonal().copy_((self._fastest - exit_rates) / self._fastest)
        terms = [identity]  # (M / 4)^k / k!
        for k in range(1, _TERMS):
            terms.append(terms[-1] @ step * (_APART / k))
        # Subnormal terms are too small to count, and arithmetic with them is slow.
        self._terms = torch.nn.functional.hardshrink(torch.stack(terms), _TINY).reshape(_TERMS, -1)
        self._cached = identity[None]  # E_0, E_1, ... as far as they have been needed
        self._apart = max(_TERMS // 2, min(_MOST_KEPT, _KEPT_ENTRIES // self._size**2))
        self._far = identity[None]  # E_0, E_n, E_2n, ... with n = self._apart, as far as they have been needed
        self._reach = float(self._apart * max(1, min(_MOST_FAR_KEPT, _FAR_KEPT_ENTRIES // self._size**2)))
        self._mixed_from = math.inf
        if stationary is not None:
            self._diagonalise(generator, stationary)

    def __call__(self, c: Tensor, largest: float | None = None) -> Tensor:
        """Return exp(c R) for each entry of ``c``.

        Args:
            c: amounts of noise, (n,), where the generator is.
            largest: what none of them exceeds, if it is known. Otherwise, and where the shorter way for small noise
                does not follow from it, the largest is looked up, which makes the host wait.
        """
        mean = c * (self._fastest / _APART)  # in quarters
        if largest is not None:
            largest *= self._fastest / _APART
        if largest is None or (largest >= self._apart and c.numel() > 1):
            largest = float(mean.max()) if c.numel() else 0.0
        if largest <= self._reach:
            return self._by_products(mean, largest)
        mixed = (mean > self._reach) & (c >= self._mixed_from)
        if not bool(mixed.any()):
            return self._by_squaring(mean)
        if bool(mixed.all()):
            return self._by_eigenvectors(c)
        out = c.new_empty(len(c), self._size, self._size)
        out[mixed] = self._by_eigenvectors(c[mixed])
        out[~mixed] = self._by_squaring(mean[~mixed])
        return out

    def _by_products(self, mean: Tensor, largest: float) -> Tensor:
        """Return the exponentials by products; ``mean`` is lam c in quarters, and ``largest`` its maximum."""
        self._keep(min(int(largest) + 1, self._apart))
        number, weights = mean.long(), _weights(mean.frac())
        near = number if largest < self._apart else number % self._apart
        at_once = max(_TERMS // 2, _AT_ONCE // self._size**2)
        if largest < self._apart and number.numel() <= at_once:
            return torch.bmm(self._cached.index_select(0, near), self._sums(weights))
        out = mean.new_empty(number.numel(), self._size, self._size)
        for start in range(0, number.numel(), at_once):
            part = slice(start, start + at_once)
            torch.bmm(self._cached.index_select(0, near[part]), self._sums(weights[part]), out=out[part])
        if largest >= self._apart:
            self._keep_far(int(largest) // self._apart + 1)
            for i, far in enumerate((number // self._apart).tolist()):
                if far:
                    out[i] = out[i] @ self._far[far]
        return out

    def _sums(self, weights: Tensor) -> Tensor:
        return (weights @ self._terms).view(-1, self._size, self._size)

    @torch.inference_mode(False)
    def _keep(self, count: int) -> None:
        """Compute E_j for all j < count at least, doubling their number each time."""
        while len(self._cached) < count:
            self._cached = torch.cat([self._cached, _stochastic(self._cached @ self._next(self._cached[-1]))])

    @torch.inference_mode(False)
    def _keep_far(self, count: int) -> None:
        """Compute E_jn for all j < count."""
        if len(self._far) < count:
            step, more = self._next(self._cached[self._apart - 1]), [*self._far]
            while len(more) < count:
                more.append(_stochastic(more[-1] @ step))
            self._far = torch.stack(more)

    def _next(self, powers: Tensor) -> Tensor:
        """Return E_{j+1}, given E_j."""
        return powers @ self._sums(_weights(self._terms.new_ones(1)))[0]

    def _by_squaring(self, mean: Tensor) -> Tensor:
        squarings = torch.ceil(torch.log2(mean / self._reach)).clamp(min=0)
        out = self._by_products(mean / torch.exp2(squarings), self._reach)
        remaining = squarings.long().tolist()
        for _ in range(max(remaining, default=0)):
            again = [i for i, left in enumerate(remaining) if left > 0]
            squared = out[again] @ out[again]
            out[again] = _stochastic(squared)
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


def _stochastic(matrices: Tensor) -> Tensor:
    """Return the matrices with rows that sum to 1 again, since rounding errors of many products would add up."""
    return matrices / matrices.sum(-1, keepdim=True)


def _weights(mean: Tensor) -> Tensor:
    """Return exp(-mean / 4) mean^k, (n, terms), by products alone and so to full relative accuracy."""
    return torch.linalg.vander(mean, N=_TERMS).mul_(torch.exp(mean * -_APART)[:, None])
