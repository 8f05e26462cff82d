"""What a full disk is called, and what to do about it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FullDiskError(OSError):
    """No space left, a quota or a limit of file sizes; the message names the folder and the remedy."""


@contextmanager
def explaining_full_disk(folder: str | os.PathLike[str], state: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn the error of a full disk into one that says what to do; every other error passes.

    Args:
        folder: where the block writes.
        state: returns a clause about the files that are safe, such as "; the last good checkpoint is ...".

    Raises:
        FullDiskError: the disk is full.
    """
    try:
        yield
    except FullDiskError:
        raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        message = f"{error.strerror}, in {os.fspath(folder)}{state()}: make room and give the same command again"
        raise FullDiskError(error.errno, message) from error
