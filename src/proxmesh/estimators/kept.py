"""What an estimator keeps of a problem: the model, and no sample."""

import copy
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor, nn

from proxmesh.problems.layout import Layout
from proxmesh.solver.result import Result

__all__ = ["KeptModel", "without_samples"]


@final
@dataclass(frozen=True, slots=True)
class KeptModel:
    """Turns rows into modules, as the problem did.

    Parameters
    ----------
    template
        The model as it was given, in the mode that it is trained in.
    layout
        Where its parameters lie in a row.
    agents
        Of this process.
    """

    template: nn.Module
    layout: Layout
    agents: tuple[int, ...]

    def module(self, row: Tensor) -> nn.Module:
        """A copy of the model with the parameters of a row, in eval mode."""
        model = copy.deepcopy(self.template).eval()
        self.layout.write(row, model)
        return model


def without_samples(result: Result, template: nn.Module) -> Result:
    """A result that can be pickled and gives no training sample away.

    Parameters
    ----------
    result
        Of a run on a `LearningProblem`.
    template
        The model of that problem.
    """
    problem = result.problem
    kept = KeptModel(copy.deepcopy(template), problem.layout, problem.agents)
    return replace(result, problem=kept)
