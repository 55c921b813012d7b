"""A regressor that agents train together."""

from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from torch import nn

from proxmesh.errors import InputError
from proxmesh.estimators.base import PRECISIONS, DecentralizedEstimator
from proxmesh.estimators.dealing import tenths

__all__ = ["DecentralizedRegressor"]


@final
class DecentralizedRegressor(RegressorMixin, DecentralizedEstimator):  # type: ignore[misc]
    """A scikit-learn regressor, trained by agents that keep their samples.

    The rows of X are dealt to agents, which agree on one model over a graph
    (`proxmesh.LearningProblem` and `proxmesh.solve`); that model predicts. There may be
    several targets.

    Parameters
    ----------
    model
        ``"linear"`` (linear regression) or ``"mlp"``, a module, or what makes one; as
        in `DecentralizedClassifier`, with one output per target: ``[N, targets]``.
    loss
        ``loss(outputs, targets)``, the mean over samples; if not given, mean squared
        error. It sees standardized targets, unless ``standardize=False``.
    standardize
        Scale the columns of X, and y, to mean 0 and variance 1 first. Predictions have
        the scale of y.
    split
        As in `DecentralizedClassifier`; for splits by label, the tenths of the
        (first) target by rank are the labels.
    regularizer, algorithm, graph, agents, steps, batch_size, random_state, engine, \
verbose, settings, module__
        As in `DecentralizedClassifier`.

    Attributes
    ----------
    module_
        The module that predicts, in eval mode, between standardized columns and
        targets.
    result_
        The `Result` of the last call, without the training samples; it can be pickled.
    history_
        A table with one row per evaluation; of `partial_fit`, the rows of all calls.
    n_iter_
        Iterations that were made.
    n_features_in_, feature_names_in_
        Columns of X; their names, if it was a table with names.
    scaler_, target_scaler_
        The two `StandardScaler`, or None.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> lasso = pm.DecentralizedRegressor(regularizer=pm.L1(0.05), steps=200)
    >>> lasso.set_params(agents=4, graph="star", random_state=0).fit(X, y)
    DecentralizedRegressor(agents=4, graph='star', random_state=0, ...)
    >>> lasso.score(X, y) > 0.4
    True
    """

    _what = "targets"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train from the beginning.

        Parameters
        ----------
        X
            Samples ``[N, features]``: an array, a table, or a sparse matrix of at most
            1 GB as a dense one.
        y
            Their targets, ``[N]`` or ``[N, targets]``.
        """
        return self._learn(X, y, first=True)

    def partial_fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train further on new samples: one epoch, from the state of the last call.

        Weights, multipliers, momentum and the counter of iterations of every agent go
        on, also those of a `fit`. The agents stay the same; the samples are dealt to
        them as in `fit`.

        Parameters
        ----------
        X, y
            New samples and their targets.
        """
        return self._learn(X, y, not self.__sklearn_is_fitted__(), epochs=1)

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The targets of each sample, ``[N]`` or ``[N, targets]`` as in `fit`.

        Parameters
        ----------
        X
            Samples ``[N, features]``.
        """
        found: NDArray[np.float64] = self._outputs(X)
        if self.target_scaler_ is not None:
            found = self.target_scaler_.inverse_transform(found)
        return found if self._several else found[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _learn(
        self,
        X: Any,  # noqa: N803
        y: Any,
        first: bool,
        epochs: float | None = None,
    ) -> Self:
        X, y = self._checked(  # noqa: N806
            X, y, first, y_numeric=True, multi_output=True
        )
        targets = np.array(y, PRECISIONS[0]).reshape(len(y), -1)
        if first:
            self._several = y.ndim > 1
            self._num_targets = targets.shape[1]
            scaler = StandardScaler().fit(targets) if self.standardize else None
            self.target_scaler_ = scaler
        elif targets.shape[1] != self._num_targets:
            raise InputError(
                f"{self._who}: `y` has {targets.shape[1]} targets, but had "
                f"{self._num_targets} in the calls before."
            )
        if self.target_scaler_ is not None:
            targets = self.target_scaler_.transform(targets)
        return self._fit(
            X,
            targets,
            tenths(targets[:, 0]),
            usual_loss=nn.functional.mse_loss,
            outputs=targets.shape[1],
            first=first,
            epochs=epochs,
        )
