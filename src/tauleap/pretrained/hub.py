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
    """Uploads the model to ``repository``, "owner/name", which is made when it does not exist; returns its address.

    Args:
        model: what to upload.
        repository: where to.
        private: whether a repository that is made is private.
        message: of the commit.
        api: a client with an endpoint or a token of its own.
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
    """Return the model in a repository of the hub, which is downloaded once and then kept.

    Args:
        repository: "owner/name".
        revision: A branch or a commit. Default: the main branch.
        classes: Your own classes in the model, see :func:`tauleap.load`.
        network: The network, where the file cannot rebuild it, see :func:`tauleap.load`.
        process: The process, where the file cannot rebuild it, see :func:`tauleap.load`.
        device: Where the model is put, see :func:`tauleap.load`. Default: "auto".
    """
    device = _device.resolve(device)  # before anything is downloaded
    folder = download(repository, revision)
    return load(folder, classes=classes, network=network, process=process, device=device)
