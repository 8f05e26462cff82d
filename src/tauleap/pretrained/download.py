"""Find a model by its name on the Hugging Face hub, and download its two files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tauleap import _shipped
from tauleap._files.printable import one_line

FILES = ("config.json", "model.safetensors")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")


def is_repository(name: str) -> bool:
    """Return whether a name has the form of a repository, "owner/name".

    >>> is_repository("owner/name"), is_repository("/tmp/name"), is_repository("toy"), is_repository("a/b/c")
    (True, False, False, False)

    Args:
        name: A name or a path.
    """
    return _REPOSITORY.fullmatch(name) is not None


def download(repository: str, revision: str | None = None) -> Path:
    """Return the folder of a model, which is downloaded once and cached.

    Args:
        repository: "owner/name".
        revision: A branch or a commit. Default: the main branch.

    Raises:
        ModuleNotFoundError: The package of the hub is not installed.
        FileNotFoundError: The hub cannot be reached, or has no such model.
    """
    hub = hub_package(repository)
    try:
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:  # errors of the hub, its HTTP library and the system
        reason = one_line(f"{type(error).__name__}: {error}", most=200)
        raise FileNotFoundError(
            f"{repository!r} is neither a folder nor a shipped model ({_names()}), and cannot be downloaded from the "
            f"Hugging Face hub ({reason}): check the name and the connection"
        ) from error


def hub_package(repository: str | None = None) -> Any:
    """Return the module ``huggingface_hub``.

    Args:
        repository: The name of the model, for the error message. Default: None.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        remedy = "the Hugging Face hub needs another package: run pip install 'tauleap[hub]'"
        missing = "" if repository is None else f"there is no folder {repository!r}; "
        raise ModuleNotFoundError(f"{missing}{remedy}") from error
    return huggingface_hub


def _names() -> str:
    return ", ".join(_shipped.NAMES)
