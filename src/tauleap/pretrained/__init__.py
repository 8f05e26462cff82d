"""Find and load saved models: in a folder, in a run, in the package or on the Hugging Face hub.

- ``loading``: :func:`load`, which checks the files, rebuilds the model and sets its weights.
- ``builtin``: the shipped models, in ``models/``.
- ``checks``: compares a configuration with the weights before memory is allocated.
- ``runs``: the checkpoints and the report of a run.
- ``download``, ``hub``: repositories of the Hugging Face hub.
- ``rebuild``: checks before training that a model of the user's own classes can be rebuilt.

Loading a downloaded model runs no code of its author: the configuration names classes that tauleap has or that ``load``
receives, with plain values as arguments. :mod:`tauleap.storage` defines the files.
"""

from tauleap.pretrained.builtin import builtin_models
from tauleap.pretrained.hub import load_from_hub, push_to_hub
from tauleap.pretrained.loading import load
from tauleap.storage.config import UnknownClassError

__all__ = ["UnknownClassError", "builtin_models", "load", "load_from_hub", "push_to_hub"]
