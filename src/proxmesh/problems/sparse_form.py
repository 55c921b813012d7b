"""Whether samples are kept sparse: as the model takes them, and as they are."""

from typing import Any

import torch
from torch import Tensor, nn

from proxmesh.data.opening import Opened
from proxmesh.data.shards import Samples
from proxmesh.data.sparse import SparseRows, SparseTable, density
from proxmesh.errors import InputError
from proxmesh.limits import readable, require_memory
from proxmesh.problems.layout import Layout
from proxmesh.problems.noise import SampledNoise
from proxmesh.problems.sparse_linear import SparseLinear

__all__ = ["in_suited_form"]

FEW_ENTRIES = 0.25  # share of numbers that are not 0, up to which samples become sparse
MOST_DENSE = 2**30  # bytes that sparse samples may take once they are dense


def in_suited_form(model: nn.Module, samples: Opened, as_they_are: bool) -> Opened:
    """Samples as the model takes them best: sparse, or dense.

    A model with `SparseLinear` gets dense samples that are mostly 0 as sparse ones. One
    that takes no sparse samples gets those of a data set as dense ones, if they fit;
    a sparse matrix that the user gave is refused.

    Parameters
    ----------
    model
        What they are for.
    samples
        All of them; what is read lazily stays as it is.
    as_they_are
        Whether dense samples stay dense.
    """
    if not isinstance(samples, Samples):
        return samples
    if samples.table is not None:
        refusal = _refuses(model, samples.table)
        return samples if refusal is None else _dense(model, samples, refusal)
    if as_they_are or not any(isinstance(m, SparseLinear) for m in model.modules()):
        return samples
    if len(samples.inputs) > 1 or not _mostly_zero(samples.inputs[0]):
        return samples
    one = SparseTable.of_dense(samples.inputs[0][:1])
    return samples if _refuses(model, one) is not None else samples.sparse()


def _mostly_zero(x: Tensor) -> bool:
    flat = x.ndim == 2 and x.is_floating_point()
    return flat and density(x[: 2**12]) <= FEW_ENTRIES and density(x) <= FEW_ENTRIES


def _refuses(model: nn.Module, table: SparseTable) -> str | None:
    """The layer of a model that cannot take sparse samples; None: it takes them."""
    entered: list[tuple[str, nn.Module]] = []

    def enter(name: str, module: nn.Module, given: tuple[Any, ...]) -> None:
        if any(isinstance(part, SparseRows) for part in given):
            entered.append((name, module))

    hooks = [
        module.register_forward_pre_hook(
            lambda module, given, name=name: enter(name, module, given)
        )
        for name, module in model.named_modules()
    ]
    layout, device = Layout.of(model), table.values.device
    first = SparseRows(torch.zeros(1, dtype=torch.int64, device=device), table)
    noise = SampledNoise(torch.zeros((), dtype=torch.int64, device=device))
    try:
        with torch.no_grad(), noise:
            layout.call(model, layout.flatten(model), (first,))
    except Exception:  # of any kind: it is the user's model
        name, layer = entered[-1] if entered else ("", model)
        if isinstance(layer, SparseLinear):
            return None  # what is wrong is something else, which is found later
        kind = type(layer).__name__
        return f"layer `{name}` ({kind})" if name else f"`{kind}`"
    finally:
        for hook in hooks:
            hook.remove()
    return None


def _dense(model: nn.Module, samples: Samples, refusal: str) -> Samples:
    """Sparse samples made dense for a model that takes no others."""
    table = samples.table
    assert table is not None
    size = len(table) * table.features * table.values.element_size()
    remedy = (
        "Begin the model with `pm.models.SparseLinear` in place of `nn.Linear`, or "
        "take `pm.models.logistic` or `mlp`."
    )
    who = f"model `{type(model).__name__}`: its {refusal} cannot take sparse samples"
    if not table.or_dense:
        raise InputError(f"{who}. {remedy}")
    if size > MOST_DENSE:
        raise InputError(
            f"{who}, and {len(table):,} of {table.features:,} features take "
            f"{readable(size)} as dense ones. {remedy}"
        )
    require_memory(who, size, remedy)
    return samples.dense()
