"""PyTorch's side of the simulated device: its registration, its module ``torch.sim``, its autocast."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from tests.simulated.state import Original, state
from tests.simulated.tensor import Storage, run, written

# As on CUDA, the products of matrices are what autocast rounds.
_ROUNDED = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "conv1d", "conv2d", "scaled_dot_product_attention")
_libraries: list[torch.library.Library] = []


class SimModule(ModuleType):
    """``torch.sim``."""

    def is_available(self) -> bool:
        return state.available

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: object) -> None:
        pass

    def synchronize(self, device: object = None) -> None:
        state.waits["synchronize"] += 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        state.generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def initial_seed(self) -> int:
        return state.generator.initial_seed()

    def get_rng_state(self, device: object = None) -> torch.Tensor:
        return state.generator.get_state()

    def set_rng_state(self, new_state: torch.Tensor, device: object = None) -> None:
        state.generator.set_state(new_state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        return self.memory

    @property
    def memory(self) -> tuple[int, int]:
        return state.memory

    @memory.setter
    def memory(self, value: tuple[int, int]) -> None:
        state.memory = value


def hook_exists() -> bool:
    """Return whether this PyTorch has the hook for backends written in Python."""
    from torch.utils import backend_registration

    return hasattr(backend_registration, "_setup_privateuseone_for_python_backend")


def register() -> None:
    """Register the device with PyTorch, once per process."""
    if _libraries or not hook_exists():
        return
    from torch.utils.backend_registration import _DummyPrivateUse1Hook, _setup_privateuseone_for_python_backend

    class Hook(_DummyPrivateUse1Hook):
        def is_available(self) -> bool:
            return state.available

    _setup_privateuseone_for_python_backend("sim", SimModule("torch.sim"), Hook())
    state.device = torch.device("sim", 0)
    state.generator = Original()
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(lambda op, *args, **kwargs: run(op, args, kwargs), "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for name in _ROUNDED:
        aten.impl(name, _rounded(getattr(torch.ops.aten, name).default), "AutocastPrivateUse1")
    aten.impl("_copy_from", _copy_from, "PrivateUse1")
    _libraries.extend((everything, aten))
    torch.serialization.register_package(1, _tag, _restore)


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Implement ``torch.tensor(..., device="sim")``; no Python function has this name, so the fallback fails."""
    return written(target, source, non_blocking)


def _rounded(operation: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("sim")

        def cast(value: Any) -> Any:
            fits = isinstance(value, torch.Tensor) and value.device.type == "sim" and value.dtype == torch.float32
            return value.to(dtype) if fits else value

        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return operation(*(cast(a) for a in args), **{name: cast(a) for name, a in kwargs.items()})

    return call


def _tag(storage: Any) -> str | None:
    return "sim:0" if storage.device.type == "sim" else None


def _restore(storage: Any, location: str) -> Any:
    if not location.startswith("sim"):
        return None
    copy = torch.UntypedStorage(storage.nbytes()).copy_(storage, False)
    copy.__class__ = Storage
    return copy
