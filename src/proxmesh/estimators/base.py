"""What the classifier and the regressor share: parameters, training, outputs."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import networkx as nx
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from proxmesh.algorithms import HSMADMM
from proxmesh.checks import require_whole
from proxmesh.data.sparse import SparseRows
from proxmesh.errors import InputError, Notice, shortened, unknown
from proxmesh.estimators.building import PREFIX, module_of, network_of
from proxmesh.estimators.dealing import Split, dealt, dense, large_and_sparse
from proxmesh.estimators.kept import without_samples
from proxmesh.front.solving import solve
from proxmesh.graphs import Graph
from proxmesh.hashing import derived_seed
from proxmesh.problems import LearningProblem, NoRegularizer
from proxmesh.problems.fit_check import Loss
from proxmesh.problems.sparse_linear import SparseLinear
from proxmesh.solver.outcome import Outcome
from proxmesh.solver.result import Result
from proxmesh.types import Algorithm

__all__ = ["DecentralizedEstimator"]

PRECISIONS = (np.float64, np.float32)  # of X, which ready models take over
SEEDS = 2**31 - 1
EVALUATIONS = 10  # of a fit; what is trained on is passed over each time
MOST_ROWS, MOST_NUMBERS = 4096, 2**24  # in one piece of a prediction
OURS = frozenset(
    {"problem", "algorithm", "graph", "steps", "state", "x0", "engine", "progress"}
)
"""Keywords of `solve` that an estimator gives itself."""


class DecentralizedEstimator(BaseEstimator):  # type: ignore[misc]
    """A model that agents train together, each on its own part of X and y."""

    _what: ClassVar[str]  # it predicts
    result_: Result
    module_: nn.Module
    history_: pd.DataFrame
    n_iter_: int

    def __init__(
        self,
        model: str | nn.Module | Callable[..., nn.Module] = "linear",
        *,
        loss: Loss | None = None,
        regularizer: Any = None,
        algorithm: Algorithm[Any] | None = None,
        graph: "str | Graph | nx.Graph[Any]" = "ring",
        agents: int | None = None,
        split: Split = "shuffled",
        steps: int = 500,
        batch_size: int = 32,
        standardize: bool = True,
        random_state: Any = None,
        engine: str = "auto",
        verbose: bool = False,
        settings: Mapping[str, Any] | None = None,
        **module__: Any,
    ) -> None:
        self.model = model
        self.loss = loss
        self.regularizer = regularizer
        self.algorithm = algorithm
        self.graph = graph
        self.agents = agents
        self.split = split
        self.steps = steps
        self.batch_size = batch_size
        self.standardize = standardize
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose
        self.settings = settings
        self._set(module__)

    # -- parameters, as scikit-learn reads and sets them -----------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name, those of the model among them.

        Parameters
        ----------
        deep
            Has no effect: nothing else here has parameters.
        """
        del deep
        own: dict[str, Any] = super().get_params(deep=False)
        return {**own, **{PREFIX + n: v for n, v in self._module_parameters.items()}}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; ``module__x`` is the model's x.

        Parameters
        ----------
        params
            By name.
        """
        of_module = {n: v for n, v in params.items() if n.startswith(PREFIX)}
        super().set_params(**{n: params[n] for n in params.keys() - of_module})
        self._set(of_module)
        return self

    def _set(self, of_module: Mapping[str, Any]) -> None:
        for name, value in of_module.items():
            if not name.startswith(PREFIX):
                known = [*self._get_param_names(), f"{PREFIX}..."]
                raise unknown("parameter", name, known, of=self._who)
            setattr(self, name, value)

    @property
    def _module_parameters(self) -> dict[str, Any]:
        found = vars(self).items()
        return {n.removeprefix(PREFIX): v for n, v in found if n.startswith(PREFIX)}

    @property
    def _who(self) -> str:
        return type(self).__name__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- training --------------------------------------------------------------------

    def _checked(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        first: bool,
        **wanted: Any,
    ) -> tuple[Any, Any]:
        """X and y as scikit-learn wants them."""
        return validate_data(  # type: ignore[no-any-return]
            self,
            X,
            y,
            reset=first,
            accept_sparse="csr",
            dtype=PRECISIONS,
            **wanted,
        )

    def _fit(
        self,
        X: Any,  # noqa: N803
        targets: NDArray[Any],
        labels: NDArray[Any],
        *,
        usual_loss: Loss,
        outputs: int,
        first: bool,
        epochs: float | None = None,
    ) -> Self:
        """Train, from the beginning or from the state of the last call."""
        who = self._who
        require_whole(who, 1, batch_size=self.batch_size)
        settings = self._settings(epochs)
        network = network_of(who, self.graph, self.agents)
        inputs = X if self._stays_sparse(X) else dense(who, X)
        if first:
            self._begin(inputs, outputs)
        if self.scaler_ is not None:
            inputs = self.scaler_.transform(inputs)
        seed = self._seed + (0 if first else self.n_iter_)
        rows = dealt(who, labels, network.n, self.split, seed)
        problem = self._problem(inputs, targets, rows, self.loss or usual_loss)
        if first:
            self._require_outputs(problem, inputs, outputs)
        result = solve(
            problem,
            HSMADMM() if self.algorithm is None else self.algorithm,
            network,
            state=None if first else self.result_,
            engine=self.engine,
            progress=bool(self.verbose),
            **settings,
        )
        self._keep(result, first)
        return self

    def _problem(
        self,
        inputs: Any,
        targets: NDArray[Any],
        rows: Sequence[NDArray[np.int64]],
        loss: Loss,
    ) -> LearningProblem:
        """What the agents minimize, each with its own rows."""
        shards = [(_given(inputs[r]), torch.from_numpy(targets[r])) for r in rows]
        with warnings.catch_warnings():
            # The batch is as large as an agent's share is on average; of an uneven
            # split some agents have less, which is no news to who has asked for it.
            warnings.filterwarnings("ignore", "batch_size .* exceeds", Notice)
            return LearningProblem(
                self._template,
                loss,
                shards,
                regularizer=self.regularizer,
                batch_size=min(self.batch_size, sum(map(len, rows)) // len(rows)),
                seed=self._seed,
            )

    def _settings(self, epochs: float | None) -> dict[str, Any]:
        """Keywords of `solve`: the usual ones, and those that were given."""
        if not isinstance(self.settings, Mapping | None):
            raise InputError(
                f"{self._who}: `settings` must map keywords of `pm.solve` to values, "
                f"got {shortened(self.settings, write=repr)}."
            )
        given = dict(self.settings or {})
        known = inspect.signature(solve).parameters.keys() - OURS
        for name in given:
            if name not in known:
                raise unknown("setting", name, known, of=self._who)
        if epochs is not None:  # those of a partial fit, whatever a whole one takes
            return {"kkt": False, **given, "epochs": epochs}
        if "epochs" in given:
            return {"kkt": False, **given}
        require_whole(self._who, 1, steps=self.steps)
        every = max(1, self.steps // EVALUATIONS)
        return {"kkt": False, "eval_every": every, **given, "steps": self.steps}

    def _stays_sparse(self, X: Any) -> bool:  # noqa: N803
        """Whether X is large and sparse, and the model takes it as it is."""
        if not large_and_sparse(X) or not isinstance(self.model, nn.Module):
            return large_and_sparse(X) and isinstance(self.model, str)
        return any(isinstance(m, SparseLinear) for m in self.model.modules())

    def _begin(self, inputs: Any, outputs: int) -> None:
        """Draw the seed, learn the scales, build the model."""
        drawn = check_random_state(self.random_state).randint(SEEDS)
        self._seed = int(drawn)
        moved = not sparse.issparse(inputs)  # a mean of 0 would fill its zeros
        scaler = StandardScaler(with_mean=moved)
        self.scaler_ = scaler.fit(inputs) if self.standardize else None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(self._seed, "init"))
            self._template = module_of(
                self._who,
                self.model,
                self._module_parameters,
                features=inputs.shape[1],
                outputs=outputs,
                dtype=torch.float64 if inputs.dtype == np.float64 else torch.float32,
            )

    def _require_outputs(
        self, problem: LearningProblem, inputs: Any, outputs: int
    ) -> None:
        """Refuse a model that puts out more, or less, than there is to predict."""
        found = _put_out(problem.module(problem.x0()[0]), inputs[:2])
        if found.shape[1:] != (outputs,):
            raise InputError(
                f"{self._who}: model `{type(self._template).__name__}` must put out "
                f"{outputs} {self._what} per sample, but put out {found.shape[1:]}."
            )

    def _keep(self, result: Result, first: bool) -> None:
        """Take over what a run has found; of one that was stopped, too."""
        self.result_ = without_samples(result, self._template)
        self._template = self.result_.problem.template  # not the user's own
        proxed = not isinstance(self.regularizer, NoRegularizer | None)
        found = self.result_.sparse_model if proxed else None
        self.module_ = found or self.result_.model  # type: ignore[assignment]
        before: Sequence[pd.DataFrame] = () if first else (self.history_,)
        self.history_ = pd.concat([*before, result.history], ignore_index=True)
        self.n_iter_ = int(result.state.k)
        if result.outcome is Outcome.INTERRUPTED:
            raise KeyboardInterrupt  # of the search that this may be a part of

    def __sklearn_is_fitted__(self) -> bool:
        return "module_" in vars(self)

    # -- predictions -----------------------------------------------------------------

    def _outputs(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """What the model puts out for each row of X."""
        check_is_fitted(self)
        X = validate_data(  # noqa: N806
            self, X, reset=False, accept_sparse="csr", dtype=PRECISIONS
        )
        found = []
        stays, size = self._stays_sparse(X), MOST_ROWS
        if not stays:
            size = min(size, max(1, MOST_NUMBERS // X.shape[1]))
        for begin in range(0, X.shape[0], size):
            inputs = X[begin : begin + size]
            if not stays:
                inputs = dense(self._who, inputs)
            if self.scaler_ is not None:
                inputs = self.scaler_.transform(inputs)
            found.append(_put_out(self.module_, inputs))
        return np.concatenate(found)


def _given(inputs: Any) -> Any:
    """Rows as a shard takes them."""
    return inputs if sparse.issparse(inputs) else torch.from_numpy(inputs)


def _put_out(module: nn.Module, inputs: Any) -> NDArray[np.float64]:
    """What a module makes of inputs, which it gets in its own precision."""
    like = next(module.parameters())
    rows = sparse.issparse(inputs)
    given = SparseRows.of(inputs) if rows else torch.tensor(inputs).to(like)
    with torch.no_grad():
        outputs = module(given)
    return outputs.double().cpu().numpy()  # type: ignore[no-any-return]
