"""The noise of dropout as part of the sample: a hash, not a generator.

A layer that drops out asks torch for random numbers. Here it gets them from a stateless
hash of (seed, agent, k, number of the draw within the model, element), whichever way
the model is evaluated: both gradients of a STORM pair see one mask, on every engine.
"""

from typing import Any, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from proxmesh.errors import InputError
from proxmesh.hashing import MASK, STRIDE, drawn, scrambled

__all__ = ["SampledNoise", "keys_of_piece"]

aten = torch.ops.aten
BERNOULLI = {aten.bernoulli_.float, aten.bernoulli.p}
RANGE = 2**32  # of a draw
SWITCHES = {"dropout", "dropout_p", "training"}  # arguments that turn draws off


@final
class SampledNoise(TorchDispatchMode):
    """Within it, dropout of any kind draws its masks from keys.

    It looks at what torch carries out, below `vmap` and autograd, so that it finds
    `nn.Dropout`, `functional.dropout`, and dropout inside attention and recurrent
    layers alike. Other random numbers are refused.

    Parameters
    ----------
    keys
        One per agent, ``[n]``, around a `vmap` over agents; 0-d around one agent.

    Attributes
    ----------
    draws
        How many times something was drawn.

    Examples
    --------
    >>> ones = torch.ones(6)
    >>> with SampledNoise(torch.tensor(7)):
    ...     first = torch.nn.functional.dropout(ones, 0.5)
    >>> with SampledNoise(torch.tensor(7)):
    ...     second = torch.nn.functional.dropout(ones, 0.5)
    >>> bool((first == second).all())
    True
    """

    def __init__(self, keys: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._keys = keys.reshape(-1, 1)
        self.draws = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's switch: True would import the compiler only to keep it out."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Draw in place of torch's generator; pass on what draws nothing."""
        del types
        kwargs = kwargs or {}
        if not _is_random(func, args, kwargs):
            return func(*args, **kwargs)
        if func in BERNOULLI:
            share = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            kept = self._kept(args[0], share).to(args[0].dtype)
            return args[0].copy_(kept) if func is aten.bernoulli_.float else kept
        if func is aten.native_dropout.default:  # what GPUs take for dropout
            x, dropped, _ = args
            kept = self._kept(x, 1 - dropped)
            return x * kept * (1 / (1 - dropped)), kept
        raise InputError(
            f"the model draws random numbers by `{func}`; of all that is random only "
            "dropout is supported, on GPUs outside of fused attention and LSTM kernels."
        )

    def _kept(self, like: Tensor, share: float) -> Tensor:
        """Draw for every element whether it is kept; agents come first."""
        self.draws += 1
        key = scrambled(self._keys ^ (self.draws * STRIDE & MASK))
        each = like.numel() // len(key)
        draw = drawn(key, torch.arange(each, device=key.device))
        return (draw < round(share * RANGE)).view(like.shape)


def _is_random(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call draws: kernels that could drop out mostly do not."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for i, argument in enumerate(func._schema.arguments):
        if argument.name in SWITCHES:
            given = args[i] if i < len(args) else kwargs.get(argument.name, 0.0)
            return bool(given)
    return True


def keys_of_piece(keys: Tensor | None, start: int) -> Tensor | None:
    """Return the keys of the samples from `start` on, where a batch is cut in pieces.

    Parameters
    ----------
    keys
        Of the whole batch; None: nothing is random.
    start
        Where the piece starts.
    """
    return keys if keys is None or start == 0 else scrambled(keys ^ start)
