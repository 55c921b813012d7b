"""Products of sparse rows with the weights of many agents, as operators of torch.

They are each other's derivative, so that any number of derivatives is exact. To `vmap`,
recordings and compilers an operator is one piece: none of them takes it apart, and only
its result has a shape that must not change.
"""

import torch
from torch import Tensor
from torch.library import Library, register_autograd, register_fake, register_vmap

from proxmesh.data.sparse import SparseRows, entries
from proxmesh.problems.sparse_kernel import has_kernel, kernel

__all__ = ["as_dense", "times"]

IN_FLIGHT = 2**22  # entries times outputs that torch gathers at once
FEW_OUTPUTS = 4  # below which the weights are not turned
OFTEN_TOUCHED = 0.25  # touches of a column from which turning the weights pays

_library = Library("proxmesh", "FRAGMENT")
_TABLE = "Tensor rows, Tensor offsets, Tensor columns, Tensor values"
_library.define(f"sparse_forward(Tensor w, {_TABLE}, bool fast) -> Tensor")
_library.define(
    f"sparse_backward(Tensor g, {_TABLE}, int features, bool fast) -> Tensor"
)
_library.define(f"sparse_dense({_TABLE}, int features) -> Tensor")
_ops = torch.ops.proxmesh


def times(weight: Tensor, samples: SparseRows) -> Tensor:
    """``samples @ weight.T`` of one agent, ``[m, outputs]``.

    Parameters
    ----------
    weight
        ``[outputs, features]``.
    samples
        Whose way says how: "gather" or "kernel".

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> samples = SparseRows.of(csr_array([[0.0, 2.0], [3.0, 0.0]]))
    >>> times(torch.tensor([[10.0, 1.0]]), samples)
    tensor([[ 2.],
            [30.]])
    """
    table, fast = samples.table, samples.way == "kernel"
    rows, values = samples.rows[None], table.values.to(weight.dtype)
    parts = (rows, table.offsets, table.columns, values)
    found: Tensor = _ops.sparse_forward(weight[None], *parts, fast)[0]
    return found


def as_dense(samples: SparseRows) -> Tensor:
    """The dense tensor that sparse rows stand for, ``[m, features]``.

    Parameters
    ----------
    samples
        Sparse rows.
    """
    table = samples.table
    parts = (samples.rows[None], table.offsets, table.columns, table.values)
    found: Tensor = _ops.sparse_dense(*parts, table.features)[0]
    return found


# -- what they compute, for all agents: w [n, o, f], rows [n, m], g and out [n, m, o] --


def _forward(  # noqa: PLR0917 - as its schema has them
    w: Tensor,
    rows: Tensor,
    offsets: Tensor,
    columns: Tensor,
    values: Tensor,
    fast: bool,
) -> Tensor:
    if fast and has_kernel(w):
        return _fast_forward(w, rows, offsets, columns, values)
    (agents, samples), (_, outputs, features) = rows.shape, w.shape
    which, entry = entries(rows.reshape(-1), offsets)
    agent, column, value = which // samples, columns[entry].long(), values[entry]
    out = w.new_empty(agents * samples, outputs)
    flat = w.reshape(-1)
    for some in _blocks(outputs, entry):
        place = (agent * outputs + some[:, None]) * features + column
        product = flat[place] * value
        target = (some - some[0])[:, None] * len(out) + which
        sums = w.new_zeros(len(some) * len(out))
        sums.index_add_(0, target.reshape(-1), product.reshape(-1))
        out[:, some] = sums.view(len(some), len(out)).T
    return out.view(agents, samples, outputs)


def _backward(  # noqa: PLR0917 - as its schema has them
    g: Tensor,
    rows: Tensor,
    offsets: Tensor,
    columns: Tensor,
    values: Tensor,
    features: int,
    fast: bool,
) -> Tensor:
    if fast and has_kernel(g):
        return _fast_backward(g, rows, offsets, columns, values, features)
    agents, samples, outputs = g.shape
    which, entry = entries(rows.reshape(-1), offsets)
    agent, column, value = which // samples, columns[entry].long(), values[entry]
    out = g.new_zeros(agents * outputs * features)
    slopes = g.reshape(-1, outputs)
    for some in _blocks(outputs, entry):
        place = (agent * outputs + some[:, None]) * features + column
        product = slopes[:, some].T[:, which] * value
        out.index_add_(0, place.reshape(-1), product.reshape(-1))
    return out.view(agents, outputs, features)


def _dense(
    rows: Tensor, offsets: Tensor, columns: Tensor, values: Tensor, features: int
) -> Tensor:
    which, entry = entries(rows.reshape(-1), offsets)
    out = values.new_zeros(rows.numel() * features)
    out.index_add_(0, which * features + columns[entry], values[entry])
    return out.view(*rows.shape, features)


def _blocks(outputs: int, entry: Tensor) -> tuple[Tensor, ...]:
    """Numbers of outputs, as many at once as memory allows."""
    at_once = max(1, IN_FLIGHT // max(1, len(entry)))
    numbers = torch.arange(outputs, device=entry.device)
    return torch.split(numbers, at_once)


# -- the same by the compiled kernels --------------------------------------------------


def _fast_forward(
    w: Tensor, rows: Tensor, offsets: Tensor, columns: Tensor, values: Tensor
) -> Tensor:
    _, outputs, features = w.shape
    if w.stride()[1:] != (features, 1):
        w = w.contiguous()
    agents, samples = rows.shape
    rows = rows.contiguous()
    out = w.new_empty(agents, samples, outputs)
    turned = _turns(samples, offsets, columns, outputs, features)
    failed = kernel("forward", w.dtype)(
        w.data_ptr(),
        w.stride(0),
        *(t.data_ptr() for t in (rows, offsets, columns, values, out)),
        *(agents, samples, outputs, features, turned),
    )
    if failed:
        raise MemoryError
    return out


def _fast_backward(  # noqa: PLR0917 - as its schema has them
    g: Tensor,
    rows: Tensor,
    offsets: Tensor,
    columns: Tensor,
    values: Tensor,
    features: int,
) -> Tensor:
    g, rows = g.contiguous(), rows.contiguous()
    agents, samples, outputs = g.shape
    turned = _turns(samples, offsets, columns, outputs, features)
    make = g.new_empty if turned else g.new_zeros
    out = make(agents, outputs, features)
    failed = kernel("backward", g.dtype)(
        *(t.data_ptr() for t in (g, rows, offsets, columns, values, out)),
        *(agents, samples, outputs, features, turned),
    )
    if failed:
        raise MemoryError
    return out


def _turns(
    samples: int, offsets: Tensor, columns: Tensor, outputs: int, features: int
) -> bool:
    """Whether columns are touched often enough for turned weights to pay."""
    touches = samples * len(columns) / max(1, len(offsets) - 1)
    return outputs >= FEW_OUTPUTS and touches >= OFTEN_TOUCHED * features


# -- what torch must know of them ------------------------------------------------------

_library.impl("sparse_forward", _forward, "CompositeExplicitAutograd")
_library.impl("sparse_backward", _backward, "CompositeExplicitAutograd")
_library.impl("sparse_dense", _dense, "CompositeExplicitAutograd")


@register_fake("proxmesh::sparse_forward", lib=_library)
def _(w, rows, *_):  # type: ignore[no-untyped-def]
    return w.new_empty(*rows.shape, w.shape[1])


@register_fake("proxmesh::sparse_backward", lib=_library)
def _(g, *rest):  # type: ignore[no-untyped-def]
    *_, features, _ = rest
    return g.new_empty(g.shape[0], g.shape[2], features)


@register_fake("proxmesh::sparse_dense", lib=_library)
def _(rows, *rest):  # type: ignore[no-untyped-def]
    *_, values, features = rest
    return values.new_empty(*rows.shape, features)


def _keep(ctx, inputs, output):  # type: ignore[no-untyped-def]
    del output
    ctx.save_for_backward(*inputs[1:5])
    ctx.features, ctx.fast = inputs[0].shape[-1], inputs[-1]


def _of_forward(ctx, g):  # type: ignore[no-untyped-def]
    table = ctx.saved_tensors
    return _ops.sparse_backward(g, *table, ctx.features, ctx.fast), *[None] * 5


def _of_backward(ctx, u):  # type: ignore[no-untyped-def]
    return _ops.sparse_forward(u, *ctx.saved_tensors, ctx.fast), *[None] * 6


register_autograd(
    "proxmesh::sparse_forward", _of_forward, setup_context=_keep, lib=_library
)
register_autograd(
    "proxmesh::sparse_backward", _of_backward, setup_context=_keep, lib=_library
)


def _merged(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Merge a dimension of `vmap` into that of the agents, which comes first."""
    moved = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return moved.flatten(0, 1)


@register_vmap("proxmesh::sparse_forward", lib=_library)
def _(info, dims, w, rows, *rest):  # type: ignore[no-untyped-def]
    size = info.batch_size
    found = _ops.sparse_forward(
        _merged(w, dims[0], size), _merged(rows, dims[1], size), *rest
    )
    return found.unflatten(0, (size, -1)), 0


@register_vmap("proxmesh::sparse_backward", lib=_library)
def _(info, dims, g, rows, *rest):  # type: ignore[no-untyped-def]
    size = info.batch_size
    found = _ops.sparse_backward(
        _merged(g, dims[0], size), _merged(rows, dims[1], size), *rest
    )
    return found.unflatten(0, (size, -1)), 0


@register_vmap("proxmesh::sparse_dense", lib=_library)
def _(info, dims, rows, *rest):  # type: ignore[no-untyped-def]
    found = _ops.sparse_dense(_merged(rows, dims[0], info.batch_size), *rest)
    return found.unflatten(0, (info.batch_size, -1)), 0
