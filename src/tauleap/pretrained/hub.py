"""Models on the Hugging Face hub: the same two files in a repository (``pip install tauleap[hub]``)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tauleap.pretrained.model import Model
from tauleap.pretrained.storage import CONFIG, WEIGHTS, load

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
    client = _hub().HfApi() if api is None else api
    address = client.create_repo(repository, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        client.upload_folder(repo_id=repository, folder_path=Path(folder) / "model", commit_message=message)
    return str(address)


def load_from_hub(repository: str, *, revision: str | None = None, device: torch.device | str = "cpu") -> Model:
    """The model in ``repository``, "owner/name", downloaded once and then kept; ``revision`` is a branch or commit."""
    folder = _hub().snapshot_download(repository, revision=revision, allow_patterns=[CONFIG, WEIGHTS])
    return load(folder, device=device)


def _hub() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the hub needs another package: write pip install 'tauleap[hub]'") from error
    return huggingface_hub
