"""A classifier that agents train together."""

from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import nn

from proxmesh.errors import InputError, shortened
from proxmesh.estimators.base import DecentralizedEstimator

__all__ = ["DecentralizedClassifier"]


@final
class DecentralizedClassifier(ClassifierMixin, DecentralizedEstimator):  # type: ignore[misc]
    """A scikit-learn classifier, trained by agents that keep their samples.

    The rows of X are dealt to agents, which agree on one model over a graph
    (`proxmesh.LearningProblem` and `proxmesh.solve`); that model predicts.

    Parameters
    ----------
    model
        ``"linear"`` (logistic regression) or ``"mlp"`` (one hidden layer of tanh);
        an `nn.Module`, of which a copy is trained; or a class or function that makes
        one. It is called with the parameters ``module__...``, and with the number of
        columns and of classes if it has parameters ``features`` and ``outputs`` or
        ``classes``. A model maps ``[N, features]`` to one logit per class.
    loss
        ``loss(logits, labels)``, the mean over samples; if not given, cross entropy.
        `nn.CrossEntropyLoss` may have weights of classes.
    regularizer
        h, such as ``pm.L1(1e-3)``, of all parameters of the model. With one, the model
        that predicts is the average of the rows out of the prox, with exact zeros.
    algorithm
        A method; if not given, ``pm.HSMADMM()``.
    graph, agents
        Who talks to whom: a name such as ``"ring"`` for this number of agents (8 if
        not given), a `Graph`, or a networkx graph.
    split
        How the samples are dealt: ``"shuffled"``, ``"contiguous"``, ``"by-label"``,
        ``"dirichlet"`` or ``"unequal"`` as in `proxmesh.data.partition`, but with no
        sample left over; or a function ``split(labels, agents, seed=seed)`` that
        returns the rows of each agent. With fewer samples than agents, every agent has
        them all.
    steps, batch_size
        Iterations of `fit`; samples per agent in a minibatch, at most as many as an
        agent has on average.
    standardize
        Scale every column of X to mean 0 and variance 1 first (`StandardScaler`), for
        `partial_fit` with what the first call has found. Without it, bring columns to
        a common scale yourself: no step size suits columns of many scales.
    random_state
        Of initial weights, split and minibatches; an int makes fits repeat.
    engine
        As in `proxmesh.solve`.
    verbose
        Show a progress bar.
    settings
        Further keywords of `proxmesh.solve`, such as ``{"target": {"train_loss": .1}}``
        or ``{"compile": True}``; ``epochs`` there stands in place of `steps`.
    module__
        ``module__x=3`` is the parameter x of the model, also for `set_params` and in
        the grid of a `GridSearchCV`.

    Attributes
    ----------
    classes_
        Labels, sorted.
    module_
        The module that predicts, in eval mode; it takes standardized columns.
    result_
        The `Result` of the last call, without the training samples; it can be pickled.
    history_
        A table with one row per evaluation; of `partial_fit`, the rows of all calls.
    n_iter_
        Iterations that were made.
    n_features_in_, feature_names_in_
        Columns of X; their names, if it was a table with names.
    scaler_
        The `StandardScaler`, or None.

    Examples
    --------
    >>> import proxmesh as pm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> iris = pm.DecentralizedClassifier(agents=5, steps=200, random_state=0)
    >>> iris.fit(X, y).score(X, y) > 0.9
    True
    """

    _what = "logits"
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train from the beginning.

        Parameters
        ----------
        X
            Samples ``[N, features]``: an array, a table, or a sparse matrix of at most
            1 GB as a dense one.
        y
            Their labels, of any kind, ``[N]``.
        """
        X, y = self._checked(X, y, first=True)  # noqa: N806
        check_classification_targets(y)
        return self._learn(X, y, np.unique(y), first=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:  # noqa: N803
        """Train further on new samples: one epoch, from the state of the last call.

        Weights, multipliers, momentum and the counter of iterations of every agent go
        on, also those of a `fit`. The agents stay the same; the samples are dealt to
        them as in `fit`.

        Parameters
        ----------
        X, y
            New samples and their labels.
        classes
            All labels that there will ever be; needed by the first call, unless `fit`
            was called before.
        """
        first = not self.__sklearn_is_fitted__()
        X, y = self._checked(X, y, first)  # noqa: N806
        check_classification_targets(y)
        if first and classes is None:
            raise InputError(
                f"{self._who}: the first call of `partial_fit` must be told all "
                "classes. Give `classes=np.unique(all_labels)`."
            )
        known = self.classes_ if classes is None else np.unique(classes)
        if not first and not np.array_equal(known, self.classes_):
            raise InputError(
                f"{self._who}: `classes` are {shortened(known.tolist())}, but were "
                f"{shortened(self.classes_.tolist())} before. Leave them out."
            )
        return self._learn(X, y, known, first, epochs=1)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most likely label of each sample.

        Parameters
        ----------
        X
            Samples ``[N, features]``.
        """
        best = self._outputs(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Probabilities ``[N, classes]``, in the order of `classes_`.

        Parameters
        ----------
        X
            Samples ``[N, features]``.
        """
        found: NDArray[np.float64] = softmax(self._outputs(X), axis=1)
        return found

    def _learn(
        self,
        X: Any,  # noqa: N803
        y: NDArray[Any],
        classes: NDArray[Any],
        first: bool,
        epochs: float | None = None,
    ) -> Self:
        if len(classes) < 2:
            raise InputError(
                f"{self._who}: `y` has 1 class, `{shortened(classes[0])}`; there must "
                "be at least 2 to tell apart."
            )
        strange = np.setdiff1d(y, classes)
        if len(strange):
            raise InputError(
                f"{self._who}: `y` has the label `{shortened(strange[0])}`, which is "
                f"none of the classes {shortened(classes.tolist())}."
            )
        labels = np.searchsorted(classes, y)
        self.classes_ = classes
        return self._fit(
            X,
            labels,
            labels,
            usual_loss=nn.functional.cross_entropy,
            outputs=len(classes),
            first=first,
            epochs=epochs,
        )
