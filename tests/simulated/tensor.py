"""The tensor of the simulated device: a wrapper around a CPU tensor, and how each operation runs on it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.simulated.state import Original, lives_on_sim, state

_Tag = torch.Tag

# Operations that take tensors of both devices, as CUDA does.
_MAY_MIX = {"_to_copy", "copy_", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "set_"}
# They take 0-dimensional CPU tensors besides the elementwise operations.
_TAKE_SCALARS = {
    "where",
    "fill_",
    "fill",
    "masked_fill",
    "masked_fill_",
    "clamp",
    "clamp_",
    "index_fill",
    "index_fill_",
}
_WAIT = {
    "_local_scalar_dense": "item",
    "nonzero": "nonzero",
    "allclose": "item",
    "equal": "equal",
    "masked_select": "masked_select",
    "bincount": "bincount",
    "_unique": "unique",
    "_unique2": "unique",
    "unique_dim": "unique",
    "unique_consecutive": "unique",
    "_linalg_check_errors": "linalg",
    "_linalg_eigh": "linalg",
    "_linalg_eigvals": "linalg",
    "linalg_eig": "linalg",
    "linalg_eigvals": "linalg",
    "_linalg_svd": "linalg",
    "linalg_matrix_exp": "linalg",
    "histc": "histc",
}
_MASKED = {"index": "index", "index_put": "index_put", "index_put_": "index_put", "_index_put_impl_": "index_put"}


class Simulated(torch.Tensor):
    """A tensor on ``sim``; ``on_cpu`` holds its values."""

    on_cpu: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> Simulated:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            layout=values.layout,
            device=state.device,
            requires_grad=False,
        )
        made.on_cpu = values
        return made

    @property
    def data(self) -> torch.Tensor:
        return torch._C.TensorBase.data.__get__(self)

    @data.setter
    def data(self, other: Simulated) -> None:
        torch._C.TensorBase.data.__set__(self, other)
        self.on_cpu = other.on_cpu

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: object) -> Any:
        raise TypeError("can't convert sim:0 device type tensor to numpy. Use Tensor.cpu() first")

    def __array__(self, *_: object, **__: object) -> Any:
        return self.numpy()

    def untyped_storage(self) -> torch.UntypedStorage:
        storage = self.on_cpu.untyped_storage()
        storage.__class__ = Storage
        return storage

    def data_ptr(self) -> int:
        return self.on_cpu.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if id(self) not in memo:
            copied = self.detach().clone().requires_grad_(self.requires_grad)
            copied.__dict__.update({name: value for name, value in self.__dict__.items() if name != "on_cpu"})
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self, _: object) -> Any:
        storage = torch.storage.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)
        place = (self.storage_offset(), tuple(self.size()), self.stride())
        return torch._utils._rebuild_tensor_v2, (storage, *place, self.requires_grad, {})

    def __repr__(self, **_: object) -> str:
        return f"Simulated({self.on_cpu!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class Storage(torch.UntypedStorage):
    @property
    def device(self) -> torch.device:
        return state.device


def run(func: Any, args: Any, kwargs: Any) -> Any:
    flat, spec = pytree.tree_flatten((args, kwargs))
    simulated = [a for a in flat if isinstance(a, Simulated)]
    name = func.overloadpacket.__name__
    device = kwargs.get("device")
    there = bool(simulated) if device is None else torch.device(device).type == "sim"
    if name == "_to_copy":
        return _copied(args[0], there, kwargs)
    if name == "copy_":
        return written(*args, **kwargs)
    if simulated:
        _check_mixed(func, name, args, flat)
        _count(func, name, args, kwargs)
    if any(isinstance(a, Original) and not lives_on_sim(a) for a in flat):
        raise RuntimeError(f"Expected a 'sim' device type for generator but found 'cpu' in {func}")
    if there and kwargs.get("dtype") is not None:
        _check_dtype(kwargs["dtype"])
    args, kwargs = pytree.tree_unflatten([_unwrap(a) for a in flat], spec)
    out = _drawn(func, args, kwargs) if _Tag.nondeterministic_seeded in func.tags else func(*args, **kwargs)
    return pytree.tree_map_only(torch.Tensor, _wrapper(func, simulated, there), out)


def _wrapper(func: Any, simulated: list[Simulated], there: bool) -> Any:
    if func._schema.is_mutable:
        for each in simulated:  # those that were resized, or whose storage was replaced
            values = each.on_cpu
            if each.shape != values.shape or each.stride() != values.stride():
                torch._C.TensorBase.data.__set__(each, Simulated(values))
    known = {id(a.on_cpu): a for a in simulated}

    def wrap(out: torch.Tensor) -> torch.Tensor:
        if id(out) in known:
            return known[id(out)]
        if there:
            _check_dtype(out.dtype)
            return Simulated(out)
        return out

    return wrap


def _unwrap(value: Any) -> Any:
    if isinstance(value, Simulated):
        return value.on_cpu
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "sim" else value


def _copied(source: torch.Tensor, there: bool, options: dict[str, Any]) -> torch.Tensor:
    dtype = options.get("dtype") or source.dtype
    if there:
        _check_dtype(dtype)
    values = source.on_cpu if isinstance(source, Simulated) else source
    form = options.get("memory_format") or torch.preserve_format
    copy = torch.empty_like(values, dtype=dtype, memory_format=form).copy_(values)
    _count_copy(isinstance(source, Simulated), there, options.get("non_blocking", False), source)
    return Simulated(copy) if there else copy


def written(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    _count_copy(isinstance(source, Simulated), isinstance(target, Simulated), non_blocking, source)
    _unwrap(target).copy_(_unwrap(source))
    return target


def _count_copy(from_there: bool, there: bool, non_blocking: bool, source: torch.Tensor) -> None:
    if source.numel() == 0 or from_there == there:
        return
    if from_there:
        state.waits["to_cpu"] += 1
    elif not non_blocking:
        state.uploads[str(tuple(source.shape))] += 1


def _check_mixed(func: Any, name: str, args: Any, flat: list[Any]) -> None:
    plain = [a for a in flat if isinstance(a, torch.Tensor) and not isinstance(a, Simulated)]
    if not plain:
        return
    if name in _MAY_MIX and isinstance(args[0], Simulated):
        # Indices may be on the CPU, but what is written must not be, unless it is one number.
        plain = [p for p in plain if len(args) > 2 and p is args[2] and p.dim() > 0]
        if not plain:
            return
    scalars_fit = _Tag.pointwise in func.tags or name in _TAKE_SCALARS
    written = func._schema.is_mutable and any(
        argument.alias_info is not None and argument.alias_info.is_write and argument.name == "self"
        for argument in func._schema.arguments
    )
    refused = not scalars_fit or any(p.dim() > 0 for p in plain) or (written and not isinstance(args[0], Simulated))
    if refused:
        shapes = [tuple(p.shape) for p in plain]
        raise RuntimeError(f"Expected all tensors to be on the same device: {func} has CPU tensors of shapes {shapes}")


def _check_dtype(dtype: torch.dtype) -> None:
    if not state.float64 and dtype in (torch.float64, torch.complex128):
        raise TypeError("Cannot convert a sim Tensor to float64 dtype as the device doesn't support float64")


def _count(func: Any, name: str, args: Any, kwargs: Any) -> None:
    kind = _WAIT.get(name)
    if name in _MASKED:
        indices = [i for i in args[1] if isinstance(i, torch.Tensor)]
        if any(i.dtype in (torch.bool, torch.uint8) for i in indices):
            kind = _MASKED[name]
        if any(not isinstance(i, Simulated) and i.dim() > 0 for i in indices):
            state.uploads["index"] += 1
    if name == "repeat_interleave" and len(args) < 2 and kwargs.get("output_size") is None:
        kind = "repeat_interleave"
    if kind is not None:
        state.waits[kind] += 1


def _drawn(func: Any, args: Any, kwargs: Any) -> Any:
    """Sample with the default generator of the device if none is given."""
    if any(isinstance(a, Original) for a in (*args, *kwargs.values())):
        return func(*args, **kwargs)
    if any(argument.name == "generator" for argument in func._schema.arguments):
        return func(*args, **{**kwargs, "generator": state.generator})
    before = torch.get_rng_state()
    torch.set_rng_state(state.generator.get_state())
    try:
        return func(*args, **kwargs)
    finally:
        state.generator.set_state(torch.get_rng_state())
        torch.set_rng_state(before)
