"""Models of links as they stand in a checkpoint, and back."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from proxmesh import compressors
from proxmesh.construct import construct
from proxmesh.errors import InputError, shortened, unknown
from proxmesh.network import links

__all__ = ["links_as_written", "links_from_written"]

MODELS = {
    kind.__name__: kind
    for kind in (
        links.Bandwidth,
        links.Compressed,
        links.Delay,
        links.Every,
        links.GilbertElliott,
        links.Latency,
        links.Loss,
        links.Noise,
        links.Outages,
        links.Participation,
        links.Schedule,
        links.Speeds,
    )
}
COMPRESSORS = {
    kind().kind: kind
    for kind in (
        compressors.Bits,
        compressors.Identity,
        compressors.Pow2,
        compressors.RandomK,
        compressors.Sign,
        compressors.TopK,
    )
}


def links_as_written(models: Sequence[Any]) -> list[dict[str, Any]]:
    """Every model as a name and its values.

    Examples
    --------
    >>> links_as_written([links.Every(4)])
    [{'model': 'Every', 'iterations': 4}]
    """
    found = []
    for model in models:
        values = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
        compressor = values.get("compressor")
        if compressor is not None:
            known = isinstance(compressor, tuple(COMPRESSORS.values()))
            values["compressor"] = (
                dataclasses.asdict(compressor) if known else repr(compressor)
            )
        found.append({"model": type(model).__name__, **values})
    return found


def links_from_written(written: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    """The models that were written down.

    Examples
    --------
    >>> links_from_written([{"model": "Delay", "tau": 2}])
    (Delay(tau=2, random=False, seed=0),)
    """
    found = []
    for tree in written:
        values = dict(tree)
        name = str(values.pop("model", None))
        if name not in MODELS:
            raise unknown("link", shortened(name), MODELS)
        if "compressor" in values:
            values["compressor"] = _compressor(values["compressor"])
        found.append(construct(f"link `{name}`", MODELS[name], values))
    return tuple(found)


def _compressor(tree: Any) -> Any:
    if not (isinstance(tree, Mapping) and tree.get("kind") in COMPRESSORS):
        raise InputError(
            f"the links of this run have a compressor of your own, {shortened(tree)}. "
            "Give them: `resume(..., links=...)`."
        )
    return construct("compressor", COMPRESSORS[tree["kind"]], tree)
