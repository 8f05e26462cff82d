"""tauleap: continuous-time diffusion for discrete data.

The data flow, here with the exact posterior of a known distribution instead of a network:

>>> import torch, tauleap as tl
>>> pmf = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64)      # two sites, two states, correlated
>>> process = tl.noise.Uniform(2, tl.noise.Constant(1.0))                  # x0 -> x_t
>>> denoiser = tl.denoise.ExactDenoiser(pmf, process)                      # x_t -> p(x0 | x_t)
>>> reverse = tl.ReverseProcess(process, denoiser)                         # p(x0 | x_t) -> reverse rates
>>> x0 = torch.tensor([[0, 0], [1, 0]])
>>> x_t = process.noise(x0, 0.3, generator=torch.Generator().manual_seed(0))
>>> reverse.posterior(x_t, 0.3).probs.shape
torch.Size([2, 2, 2])
>>> reverse.rates(torch.tensor([[1, 0]]), 0.3)
tensor([[[1.4412, 0.0000],
         [0.0000, 1.4412]]], dtype=torch.float64)
"""

from __future__ import annotations

from tauleap._version import __version__

TYPE_CHECKING = False  # true for type checkers; importing typing takes longer than this file
if TYPE_CHECKING:
    from tauleap import (
        data,
        denoise,
        evaluate,
        network,
        noise,
        objective,
        pretrained,
        recipes,
        sampling,
        testing,
        training,
    )
    from tauleap.evaluate import tune
    from tauleap.fitting import fit
    from tauleap.model import Model
    from tauleap.observed import Observed
    from tauleap.pretrained import load
    from tauleap.reverse import ReverseProcess
    from tauleap.sampling import sample

__all__ = [
    "Model",
    "Observed",
    "ReverseProcess",
    "__version__",
    "data",
    "denoise",
    "evaluate",
    "fit",
    "load",
    "network",
    "noise",
    "objective",
    "pretrained",
    "recipes",
    "sample",
    "sampling",
    "testing",
    "training",
    "tune",
]

_HOMES = {
    "Observed": "tauleap.observed",
    "ReverseProcess": "tauleap.reverse",
    "sample": "tauleap.sampling",
    "Model": "tauleap.model",
    "load": "tauleap.pretrained",
    "fit": "tauleap.fitting",
    "tune": "tauleap.evaluate",
}
_MODULES = (
    *("data", "noise", "network", "denoise", "objective", "sampling", "evaluate", "testing"),
    *("pretrained", "training", "recipes"),
)


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that the command line starts without importing torch."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"tauleap.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'tauleap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
