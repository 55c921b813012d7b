"""Which edges and agents fail in an iteration: a function of seeds, ids and k."""

from typing import Any, final

import torch
from torch import Tensor

from proxmesh.hashing import MASK
from proxmesh.network.links.edges import Draws, LocalEdges
from proxmesh.network.links.failing import (
    GilbertElliott,
    Loss,
    Outages,
    Participation,
    Schedule,
    Speeds,
)
from proxmesh.network.links.plan import Plan

__all__ = ["Failures"]


@final
class Failures:
    """All that fails on one network.

    Parameters
    ----------
    plan
        The models.
    edges
        Of the agents that live here.
    """

    def __init__(self, plan: Plan, edges: LocalEdges) -> None:
        self._plan = plan
        self._edges = edges
        self._draws: dict[int, tuple[Draws, ...]] = {}
        self._tables: dict[int, Tensor] = {}
        self.chains: list[tuple[int, GilbertElliott]] = []
        near = torch.minimum(edges.agent, edges.neighbor)
        far = torch.maximum(edges.agent, edges.neighbor)
        for i, model in enumerate(plan.models):
            name = type(model).__name__
            if isinstance(model, Participation):
                self._draws[i] = (Draws.over(model.seed, name, i, edges.ids),)
            elif isinstance(model, Loss):
                out = Draws.over(model.seed, name, i, edges.agent, edges.neighbor)
                back = Draws.over(model.seed, name, i, edges.neighbor, edges.agent)
                self._draws[i] = (out, back)
            elif isinstance(model, GilbertElliott):
                ends = (near, far) if model.known else (edges.neighbor, edges.agent)
                self._draws[i] = (Draws.over(model.seed, name, i, *ends),)
                self.chains.append((i, model))
            elif isinstance(model, Outages):
                self._draws[i] = (Draws.over(model.seed, name, i, near, far),)
            elif isinstance(model, Speeds):
                turns = edges.ids % len(model.periods)
                periods = torch.tensor(model.periods, device=edges.device)
                self._tables[i] = periods[turns]
            elif isinstance(model, Schedule):
                pairs = list(zip(near.tolist(), far.tolist(), strict=True))
                there = [[pair in listed for pair in pairs] for listed in model.edges]
                self._tables[i] = torch.tensor(there, device=edges.device)

    def bursts_after(self, k: Tensor, bursts: Tensor) -> Tensor:
        """The edges that are bad in iteration k, ``[edges, chains]``, 1 or 0."""
        columns = []
        for column, (i, model) in enumerate(self.chains):
            bad, draw = bursts[:, column] > 0.5, self._draws[i][0].at(k, 0)
            stay = round((1 - 1 / model.burst) * (MASK + 1))
            turn = round(model.to_bad * (MASK + 1))
            columns.append(torch.where(bad, draw < stay, draw < turn))
        return torch.stack(columns, 1).to(bursts.dtype)

    def open(self, k: Tensor) -> Tensor | None:
        """The edges over which something is sent, whether it is lost then or not."""
        return self.up(k, 0, None, but=(Loss, GilbertElliott))

    def up(
        self,
        k: Tensor,
        slot: int,
        bursts: Tensor | None,
        but: tuple[type[Any], ...] = (),
    ) -> Tensor | None:
        """The edges that both ends use, but for some kinds of models; None: all."""
        talk = k - k % self._plan.every  # an edge that was lost then is left out since
        found: Tensor | None = None
        for i, model in enumerate(self._plan.models):
            one: Any = None
            if isinstance(model, but):
                continue
            if isinstance(model, Outages):
                one = self._draws[i][0].below(talk, 0, model.up)
            elif isinstance(model, Loss) and model.known:
                out, back = self._draws[i]
                lost = out.below(talk, slot, model.q) | back.below(talk, slot, model.q)
                one = ~lost
            elif isinstance(model, GilbertElliott) and model.known:
                one = self._is_good(i, bursts)
            elif isinstance(model, Schedule):
                turn = ((talk - 1) // model.every) % len(model.edges)
                one = self._tables[i].index_select(0, turn.view(1))[0]
            elif isinstance(model, Participation | Speeds):
                one = self._both_awake(i, k)
                if self._plan.every > 1:
                    one = one & self._both_awake(i, talk)
            if one is not None:
                found = one if found is None else found & one
        return found

    def heard(self, k: Tensor, slot: int, bursts: Tensor | None) -> Tensor | None:
        """The edges over which a message of the neighbor arrives, silent losses too."""
        found = self.up(k, slot, bursts)
        for i, model in enumerate(self._plan.models):
            if isinstance(model, Loss) and not model.known:
                one = ~self._draws[i][1].below(k, slot, model.q)
            elif isinstance(model, GilbertElliott) and not model.known:
                one = self._is_good(i, bursts)
            else:
                continue
            found = one if found is None else found & one
        return found

    def awake(self, k: Tensor) -> Tensor:
        """The agents of this process that take part in iteration k, ``[n_local]``."""
        found = torch.ones(self._edges.n_local, dtype=torch.bool)
        found = found.to(self._edges.device)
        for i, model in enumerate(self._plan.models):
            if isinstance(model, Participation | Speeds):
                found = found & self._awake(i, k)[: self._edges.n_local]
        return found

    def _awake(self, i: int, k: Tensor) -> Tensor:
        """Of all agents that are seen here."""
        model = self._plan.models[i]
        if isinstance(model, Participation):
            return self._draws[i][0].below(k, 0, model.p)
        return k % self._tables[i] == 0

    def _both_awake(self, i: int, k: Tensor) -> Tensor:
        awake = self._awake(i, k)
        return self._edges.near(awake) & self._edges.far(awake)

    def _is_good(self, i: int, bursts: Tensor | None) -> Tensor:
        column = [index for index, _ in self.chains].index(i)
        assert bursts is not None
        return bursts[:, column] < 0.5
