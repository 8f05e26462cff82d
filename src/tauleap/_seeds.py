"""Seeds: the range that is accepted, and how one seed is derived from another.

Randomness has no hidden state. Each random draw of training, of a block of samples and of a part of a file has a seed
that follows from the user's seed and the name of the draw, so an interrupted run resumes with the same draws, and
processes agree without communicating. Generators for a device are made by :func:`tauleap._device.new_generator`. This
module does not import torch, so that the command line can check a seed at once.
"""

from __future__ import annotations

import hashlib
from numbers import Integral

_LIMIT = 2**63
"""One more than the largest seed: every generator of torch accepts nonnegative 64-bit signed integers."""


def check_seed(seed: object, *, name: str = "seed") -> int:
    """Return a seed that every generator accepts.

    Args:
        seed: a whole number from 0 to 2**63 - 1.
        name: the argument or option, for the message. Default: "seed".

    Raises:
        TypeError: the seed is not a whole number.
        ValueError: the seed is out of range.

    >>> check_seed(7)
    7
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(
            f"{name} must be a whole number from 0 to 2**63 - 1, got {seed!r} of type {type(seed).__name__}"
        )
    if not 0 <= int(seed) < _LIMIT:
        raise ValueError(f"{name} must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    return int(seed)


def derive_seed(*words: int | str) -> int:
    """Return a seed that is computed from ``words``; other words give an unrelated seed.

    Args:
        words: the user's seed and what is drawn, such as ``(seed, "noise", step)``.

    Returns:
        A seed from 0 to 2**63 - 1.

    >>> derive_seed(0, "noise", 1) == derive_seed(0, "noise", 1) != derive_seed(0, "noise", 2)
    True
    """
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # 63 bits
