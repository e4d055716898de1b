"""ABCBoostClassifier: Fast ABC-Boost as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from abc_plugins.callbacks import CallbackList, early_stopping, log_evaluation
from abc_plugins.core.boosters import make_booster
from abc_plugins.core.model.ensemble import TreeEnsemble
from abc_plugins.core.runtime.arrays import AnyArray, Floats
from abc_plugins.core.runtime.checks import check_choice, check_integer, check_real
from abc_plugins.core.runtime.parallel import Workers, check_n_jobs, resolve_n_jobs
from abc_plugins.core.runtime.sparse_table import Table
from abc_plugins.core.schedule import check_search
from abc_plugins.core.settings import Settings, check_settings
from abc_plugins.data.categories import Categories, check_categorical_features
from abc_plugins.data.labels import encode_labels
from abc_plugins.data.tables import read_known, read_weights
from abc_plugins.training.evaluation import Metrics, softmax
from abc_plugins.training.fit_data import read_fit_data
from abc_plugins.training.persistence import load_classifier, save_classifier
from abc_plugins.training.resuming import RunCheckpoints, draw_seed, read_resumption
from abc_plugins.training.run import TrainingRun, train, warn_without_splits


class ABCBoostClassifier(ClassifierMixin, BaseEstimator):
    """Multi-class gradient boosting along directions of class space, or with an adaptive base class.

    None stands for a default that depends on the method: (directional / the paper's methods).

    Parameters
    ----------
    method : {"directional", "abcrobustlogit", "abcmart", "robustlogit", "mart"}, default="directional"
        "directional" grows trees along random directions of class space, and gives every leaf a value for every class.
        The others are those of the Fast ABC-Boost paper (Li and Zhao 2022): "mart" and "robustlogit" grow one tree per
        class and round, with the first-order and the second-order split gain; "abcmart" and "abcrobustlogit" have a
        base class each round and grow a tree for every other class.
    n_estimators : int, default=300
        Number of boosting rounds, M.
    learning_rate : float or None, default=None
        Shrinkage, nu (0.1, and 0.05 with `early_stopping_rounds` / 0.1).
    num_leaves : int or None, default=None
        Largest number of leaves of a tree that is grown best-first, J (40 / 20).
    tree_shape : {"auto", "best-first", "symmetric"}, default="auto"
        "best-first" splits the leaf that gains most, wherever it is. "symmetric" splits all leaves of a level by the
        same feature and threshold. "auto" grows directional trees symmetric, unless there are more than 32,768
        samples or fewer than four possible splits for each class. The paper's methods grow best-first.
    max_depth : int or None, default=None
        Levels of a symmetric tree (6, and 7 from 3,200 samples on).
    trees_per_round : int or None, default=None
        Directional trees grown side by side from the same probabilities (1, and from 8,192 samples on a quarter of the
        number of classes, from 2 to 8).
    search : int or "all", default=1
        s: how many classes to try as base class in a search; how many directions to try for each directional tree, of
        which the one with the largest gain of the root is taken.
    gap : int, default=0
        After a search keep the base class, or the directions, for this many rounds, g.
    warmup : int, default=0
        Number of classic rounds before the first search, w: one tree for each class, which moves that class alone.
    base_choice : {"drawn", "worst"}, default="drawn"
        Which classes are tried first as base: with "worst", the paper's rule, those with the largest training loss;
        with "drawn" classes drawn at random, with a probability in proportion to the square of their training loss,
        or to a lower power where less of what is learnt holds for held-out samples: every tenth round is grown
        without a fifth of the samples to find out. Draws are the same in every fit, whatever `random_state` is.
    min_samples_leaf : float or None, default=None
        Smallest total weight of the samples of a leaf: their number if there are no weights (1 / 10). A split that
        would leave a leaf of a symmetric tree with less gains nothing there.
    pair_samples_per_leaf : float, default=4.0
        A tree of a class and the base class has at most one leaf for so many samples of the two (for so much of their
        total weight), and two at the least: with few samples of each class larger trees learn accidents. 0 is no
        limit, as in the paper.
    min_child_weight : float, default=0.0
        Smallest sum of hessians of a leaf.
    reg_lambda : float or None, default=None
        L2 regularisation: added to the denominators of gains (1 / 0).
    leaf_reg_lambda : float or None, default=None
        L2 regularisation of leaf values: added to their denominators (0.1 / as `reg_lambda`).
    leaf_clip : float or None, default=50.0
        Largest absolute leaf value before shrinkage; None for no limit.
    leaf_values : {"sequential", "paper"}, default="sequential"
        For the paper's methods: "paper" computes the leaf values of all trees of a round from the scores before it;
        "sequential" one tree after the other, each from the scores that the trees before it left. Directional trees
        always do the latter.
    guard : bool, default=True
        Halve the step of a round that would raise the training loss. If that does not help, make it a classic round, or
        without a base class one that adds nothing.
    start_scores : {"priors", "zero"} or None, default=None
        Scores before the first round: the logarithms of the class frequencies, or zero ("priors" / "zero").
    max_bins : int or None, default=None
        Largest number of bins of a feature, up to 255 (one for 64 samples, from 64 to 255 / 255). Missing values have a
        bin of their own, and so has every category.
    subsample : float, default=1.0
        Share of the samples drawn for each round's trees, without replacement.
    colsample : float, default=1.0
        Share of the features drawn for each tree.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Features whose values are names rather than amounts. With "from_dtype" the columns of strings and of pandas,
        polars or Arrow categories; else a list of column names, of column indices or of a boolean for every column.
        Levels keep the order of ordered categories, others are sorted. Up to 254 levels are told apart; if there are
        more, the 253 most frequent, and the rest count as one. Levels that the training data does not have are
        missing values, or such a rest.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, multiplied with the sample weights: those in the dict, 1 for all others; "balanced" gives
        all classes the same total weight.
    early_stopping_rounds : int or None, default=None
        Stop when a metric of an evaluation set has not improved for this many rounds. Without `eval_set`, a share of
        the training data is set aside, see `validation_fraction`.
    validation_fraction : float, default=0.1
        Share of the training data set aside for early stopping if there is no `eval_set`.
    eval_metric : str, callable or list of them, default="logloss"
        "logloss", "error", or functions (y_true, y_proba) -> (name, value, higher_is_better).
    n_jobs : int or None, default=None
        Number of threads; None and -1 use every core. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the directions, of `subsample`, `colsample`, and the validation split.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does: "keep" ends the fit with a model of the rounds done so far, if there are any.
    verbose : int, default=0
        Print the loss and metrics every `verbose` rounds; 0 is silent.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels in ascending order.
    n_classes_ : int
    n_features_in_ : int
    feature_names_in_ : array of str, shape (n_features,)
        Only if the training data has column names.
    is_categorical_ : array of bool, shape (n_features,)
    categories_ : list of array or None, one per feature
        The levels that a categorical feature has; None for other features.
    base_classes_ : array of int, shape (n_rounds,)
        Index of each round's base class; -1 for a round without one.
    train_loss_ : array of float, shape (n_rounds,)
        Total weighted log loss of the training data after each round.
    trees_grown_ : int
        Distinct trees grown, trials of candidate base classes included.
    guarded_rounds_ : int
        Number of rounds in which `guard` stepped in.
    evals_result_ : dict
        evals_result_[name of evaluation set][metric] is a list with one value per round.
    best_iteration_ : int
        Number of rounds that `predict` uses: with early stopping those up to the best one, else all.
    feature_importances_ : array of shape (n_features,)
        Share of each feature in the total gain; see `feature_importance` for other kinds.
    model_ : TreeEnsemble
        The trees.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from abc_plugins import ABCBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ABCBoostClassifier(n_estimators=20).fit(X, y)
    >>> model.predict(X[:3])
    array([0, 0, 0])
    """

    def __init__(
        self,
        *,
        method: str = "directional",
        n_estimators: int = 300,
        learning_rate: float | None = None,
        num_leaves: int | None = None,
        tree_shape: str = "auto",
        max_depth: int | None = None,
        trees_per_round: int | None = None,
        search: int | str = 1,
        gap: int = 0,
        warmup: int = 0,
        base_choice: str = "drawn",
        min_samples_leaf: float | None = None,
        pair_samples_per_leaf: float = 4.0,
        min_child_weight: float = 0.0,
        reg_lambda: float | None = None,
        leaf_reg_lambda: float | None = None,
        leaf_clip: float | None = 50.0,
        leaf_values: str = "sequential",
        guard: bool = True,
        start_scores: str | None = None,
        max_bins: int | None = None,
        subsample: float = 1.0,
        colsample: float = 1.0,
        categorical_features: Any = "from_dtype",
        class_weight: Any = None,
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        eval_metric: Any = "logloss",
        n_jobs: int | None = None,
        random_state: Any = None,
        on_interrupt: str = "raise",
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.tree_shape = tree_shape
        self.max_depth = max_depth
        self.trees_per_round = trees_per_round
        self.search = search
        self.gap = gap
        self.warmup = warmup
        self.base_choice = base_choice
        self.min_samples_leaf = min_samples_leaf
        self.pair_samples_per_leaf = pair_samples_per_leaf
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.leaf_reg_lambda = leaf_reg_lambda
        self.leaf_clip = leaf_clip
        self.leaf_values = leaf_values
        self.guard = guard
        self.start_scores = start_scores
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample = colsample
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.eval_metric = eval_metric
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.on_interrupt = on_interrupt
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        callbacks: Sequence[Any] | None = None,
        resume_from: str | os.PathLike[str] | None = None,
    ) -> ABCBoostClassifier:
        """Fit the model.

        Parameters
        ----------
        X : table or array of shape (n_samples, n_features)
            NumPy array, SciPy sparse matrix, or a pandas, polars or Arrow table of numbers, booleans and categories
            (see `categorical_features`). NaN is a missing value.
        y : array-like of shape (n_samples,)
            Labels of any hashable, sortable kind.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 equals a row given twice, 0 a row left out. Of fractions only the ratios matter.
        eval_set : list of (X, y) or (X, y, sample_weight), optional
            Samples to score after every round, called "valid_0", "valid_1", ...
        callbacks : list, optional
            See `abc_plugins.callbacks`.
        resume_from : path, optional
            A file that `abc_plugins.callbacks.checkpoint` wrote in a training with the same data and parameters (but
            perhaps fewer `n_estimators`, other `n_jobs` or `verbose`): go on from there. The model is the same, bit for
            bit, as if training had not been interrupted.

        Returns
        -------
        self
        """
        resumption = read_resumption(resume_from, self)
        seed = draw_seed(self.random_state, resumption)
        settings = self._check_parameters(seed)
        if resumption is not None:
            resumption.check_rounds(settings.n_estimators)
        metrics = Metrics(self.eval_metric)
        threads = self._n_threads()
        hooks = CallbackList(callbacks).callbacks
        data = read_fit_data(
            X,
            y,
            sample_weight,
            eval_set,
            class_weight=self.class_weight,
            categorical=check_categorical_features(self.categorical_features),
            held_out_share=None if self.early_stopping_rounds is None else self.validation_fraction,
            seed=seed,
        )
        n_classes = data.classes.size
        check_search(self.search, n_classes if settings.is_adaptive and n_classes > 2 else None)
        with Workers(threads) as workers:
            binned = data.binned(settings.max_bins, workers)
            run = train(
                make_booster(binned, settings, workers),
                settings.n_estimators,
                data.eval_sets,
                metrics,
                [*self._own_callbacks(bool(data.eval_sets)), *hooks],
                workers,
                RunCheckpoints(self, data, seed, resumption),
                keep_interrupted=self.on_interrupt == "keep",
            )
            warn_without_splits(run, binned, settings)
        self._keep(run, data.classes, data.names, data.categories)
        return self

    def predict(self, X: Any) -> AnyArray:
        """Predict the label of every sample, array of shape (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[self._raw_scores(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """Predict class probabilities, array of shape (n_samples, n_classes)."""
        check_is_fitted(self)
        return softmax(self._raw_scores(X))

    def decision_function(self, X: Any) -> Floats:
        """Scores of shape (n_samples, n_classes) that sum to zero; with two classes the log odds of the second."""
        check_is_fitted(self)
        return self._decision(self._raw_scores(X))

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield the probabilities after each round."""
        check_is_fitted(self)
        for scores in self._staged_scores(X):
            yield softmax(scores)

    def staged_predict(self, X: Any) -> Iterator[AnyArray]:
        """Yield the predicted labels after each round."""
        check_is_fitted(self)
        for scores in self._staged_scores(X):
            yield self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the samples whose label is predicted."""
        check_is_fitted(self)
        if not isinstance(self.classes_[0], tuple):
            return super().score(X, y, sample_weight)
        # scikit-learn's metrics take a tuple for several labels.
        right = self._raw_scores(X).argmax(axis=1) == encode_labels(y, self.classes_)
        return float(np.average(right, weights=read_weights(sample_weight, right.size)))

    @property
    def feature_importances_(self) -> Floats:
        """Share of each feature in the total gain of all splits."""
        check_is_fitted(self)
        gains = self.feature_importance("gain")
        total = gains.sum()
        return gains / total if total > 0 else gains

    def feature_importance(self, importance_type: str = "gain") -> Floats:
        """Total gain ("gain") or number ("count", "split") of the splits on every feature."""
        check_is_fitted(self)
        check_choice("importance_type", importance_type, ("gain", "count", "split"))
        return self.model_.feature_importance(importance_type, self.best_iteration_)

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file; `load_model` reads it."""
        check_is_fitted(self)
        save_classifier(self, path)

    @classmethod
    def load_model(cls, path: str | os.PathLike[str]) -> ABCBoostClassifier:
        """Read a model that `save_model` wrote.

        Raises
        ------
        ModelFormatError
            If the file is not a valid model.
        """
        return load_classifier(cls, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self, seed: int) -> Settings:
        """Check every parameter before any work is done."""
        if self.early_stopping_rounds is not None:
            check_integer("early_stopping_rounds", self.early_stopping_rounds, minimum=1)
        check_categorical_features(self.categorical_features)
        check_choice("on_interrupt", self.on_interrupt, ("raise", "keep"))
        check_real("validation_fraction", self.validation_fraction, above=0.0, maximum=0.9)
        if not isinstance(self.verbose, bool):
            check_integer("verbose", self.verbose, minimum=0)
        names = set(Settings.__dataclass_fields__) - {"seed"}
        stops_early = self.early_stopping_rounds is not None
        return check_settings(seed=seed, stops_early=stops_early, **{name: getattr(self, name) for name in names})

    def _check_all_parameters(self) -> None:
        """Check that the parameters, as far as they do not depend on data, could be those of a fit."""
        self._check_parameters(seed=0)
        self._n_threads()

    def _n_threads(self) -> int:
        return resolve_n_jobs(check_n_jobs(self.n_jobs))

    def _own_callbacks(self, has_eval_sets: bool) -> list[Any]:
        own = []
        if self.verbose:
            own.append(log_evaluation(int(self.verbose)))
        if self.early_stopping_rounds is not None and has_eval_sets:
            own.append(early_stopping(self.early_stopping_rounds))
        return own

    def _keep(self, run: TrainingRun, classes: AnyArray, names: Sequence[str] | None, categories: Categories) -> None:
        """Set the fitted attributes."""
        self.classes_ = classes
        self.n_classes_ = int(classes.size)
        self.n_features_in_ = len(categories.levels)
        self._categories = categories
        self.categories_ = list(categories.levels)
        self.is_categorical_ = categories.is_categorical
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.model_: TreeEnsemble = run.model
        self.base_classes_ = np.array(run.base_classes, dtype=np.int64)
        self.train_loss_ = np.array(run.train_loss)
        self.trees_grown_ = run.trees_grown
        self.guarded_rounds_ = run.guarded_rounds
        self.evals_result_ = run.evals_result
        self.best_iteration_ = run.best_iteration

    def _read(self, X: Any) -> Table:
        names = getattr(self, "feature_names_in_", None)
        return read_known(X, self._categories, None if names is None else list(names), "X", type(self).__name__)

    def _raw_scores(self, X: Any) -> Floats:
        values = self._read(X)
        with Workers(self._n_threads()) as workers:
            return self.model_.raw_scores(values, workers, self.best_iteration_)

    def _staged_scores(self, X: Any) -> Iterator[Floats]:
        values = self._read(X)
        with Workers(self._n_threads()) as workers:
            yield from self.model_.staged_raw_scores(values, workers)

    def _decision(self, scores: Floats) -> Floats:
        if self.n_classes_ == 2:
            return scores[:, 1] - scores[:, 0]
        return scores - scores.mean(axis=1, keepdims=True)
