"""Models on the Hugging Face hub: the same two files in a repository (``pip install tauleap[hub]``)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from tauleap import _device
from tauleap.model import Model
from tauleap.noise import ForwardProcess
from tauleap.pretrained.download import download, hub_package
from tauleap.pretrained.loading import load

if TYPE_CHECKING:
    from huggingface_hub import HfApi


def push_to_hub(
    model: Model,
    repository: str,
    *,
    private: bool = False,
    message: str = "Upload a tauleap model",
    api: HfApi | None = None,
) -> str:
    """Upload a model to the Hugging Face hub, and return the address of the repository.

    >>> push_to_hub(tauleap.load("toy"), "owner/name")  # doctest: +SKIP
    'https://huggingface.co/owner/name'

    Args:
        model: The model.
        repository: The repository "owner/name", which is created if it does not exist.
        private: Whether a new repository is private. Default: false.
        message: The message of the commit. Default: "Upload a tauleap model".
        api: A client with its own endpoint or token. Default: None, that of ``huggingface_hub``.

    Returns:
        The address of the repository.

    Raises:
        ModuleNotFoundError: ``huggingface_hub`` is not installed.
    """
    client = hub_package().HfApi() if api is None else api
    address = client.create_repo(repository, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        client.upload_folder(repo_id=repository, folder_path=Path(folder) / "model", commit_message=message)
    return str(address)


def load_from_hub(
    repository: str,
    *,
    revision: str | None = None,
    classes: Iterable[type] = (),
    network: nn.Module | None = None,
    process: ForwardProcess | None = None,
    device: torch.device | str = "auto",
) -> Model:
    """Return the model in a repository of the Hugging Face hub, which is downloaded once and cached.

    >>> load_from_hub("owner/name", device="cpu")  # doctest: +SKIP

    Args:
        repository: The repository "owner/name".
        revision: A branch or a commit. Default: the main branch.
        classes: Your own classes in the model, see :func:`tauleap.load`. Default: none.
        network: The network, if the file cannot rebuild it, see :func:`tauleap.load`. Default: None.
        process: The process, if the file cannot rebuild it, see :func:`tauleap.load`. Default: None.
        device: The device of the model, see :func:`tauleap.load`. Default: "auto".

    Returns:
        The model, in evaluation mode.

    Raises:
        ModuleNotFoundError: ``huggingface_hub`` is not installed.
        FileNotFoundError: The hub cannot be reached, or has no such model.
        UnknownClassError: The model has classes of its author, or parts that its file cannot rebuild.
    """
    device = _device.resolve(device)  # before anything is downloaded
    folder = download(repository, revision)
    return load(folder, classes=classes, network=network, process=process, device=device)
