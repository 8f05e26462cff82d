"""Models on disk: ``config.json`` says how to build one, ``model.safetensors`` holds its weights. No pickles.

Nothing in a downloaded model is run: the configuration names classes from a list, with numbers for arguments.
"""

from tauleap.pretrained.builtin import builtin_models
from tauleap.pretrained.config import allow
from tauleap.pretrained.hub import load_from_hub, push_to_hub
from tauleap.pretrained.model import Model
from tauleap.pretrained.storage import load

__all__ = ["Model", "allow", "builtin_models", "load", "load_from_hub", "push_to_hub"]
