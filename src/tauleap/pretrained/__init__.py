"""Models on disk: ``config.json`` says how to build one, ``model.safetensors`` holds its weights. No pickles.

Nothing in a downloaded model is run: the configuration names classes that tauleap has or that ``load`` is given, with
numbers for arguments.
"""

from tauleap.model import Model
from tauleap.pretrained.builtin import builtin_models
from tauleap.pretrained.hub import load_from_hub, push_to_hub
from tauleap.pretrained.loading import load
from tauleap.storage.config import UnknownClassError

__all__ = ["Model", "UnknownClassError", "builtin_models", "load", "load_from_hub", "push_to_hub"]
