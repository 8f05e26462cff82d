"""Errors of a full disk: recognise them and add the remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REMEDY = "free some space and run the same command again"


class FullDiskError(OSError):
    """Report a full disk, a quota or a limit of file sizes; the message names the folder and the remedy."""


def is_full_disk(error: OSError) -> bool:
    """Return whether the disk is full, a quota is used up, or a file has reached its largest size.

    Args:
        error: an error of the system.
    """
    return error.errno in FULL_DISK


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
        if not is_full_disk(error):
            raise
        message = f"{error.strerror}, in {os.fspath(folder)}{state()}: {REMEDY}"
        raise FullDiskError(error.errno, message) from error
