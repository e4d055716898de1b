"""ABCBoostClassifier: directional trees and Fast ABC-Boost as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from abc_plugins.callbacks import CallbackList, log_evaluation
from abc_plugins.core.runtime.checks import check_choice, check_flag, check_integer, fail
from abc_plugins.core.runtime.parallel import Workers
from abc_plugins.core.schedule import check_search
from abc_plugins.core.settings import Settings, check_settings, interaction_groups
from abc_plugins.data.categories import check_categorical_features
from abc_plugins.fitted import FittedClassifier
from abc_plugins.training.eval_sets import check_beginning, list_eval_sets
from abc_plugins.training.evaluation import Metrics
from abc_plugins.training.fit_data import GivenData, read_given, with_hints
from abc_plugins.training.fitting import Fit
from abc_plugins.training.resuming import draw_seed, read_resumption
from abc_plugins.training.stopping import Stopping, check_stopping, choose_stopping, is_asked_to_stop


class ABCBoostClassifier(FittedClassifier):
    """Multi-class gradient boosting along directions of class space, or with an adaptive base class.

    Where None is the default, it stands for the values in brackets: (directional trees / the paper's methods).

    Parameters
    ----------
    method : {"directional", "abcrobustlogit", "abcmart", "robustlogit", "mart"}, default="directional"
        "directional" grows trees along random directions of class space, and gives every leaf a value for every class.
        The others are those of the Fast ABC-Boost paper (Li and Zhao 2022): "mart" and "robustlogit" grow one tree per
        class and round, with the first-order and the second-order split gain; "abcmart" and "abcrobustlogit" have a
        base class each round and grow a tree for every other class.
    n_estimators : int or None, default=None
        Number of boosting rounds, M, or the most that there may be with early stopping (4000 with early stopping, else
        300). A number given here switches the automatic early stopping off.
    learning_rate : float or None, default=None
        Shrinkage, nu (0.1, and 0.05 with early stopping / 0.1).
    num_leaves : int or None, default=None
        Largest number of leaves of a tree that is grown best-first, J (40 / 20).
    tree_shape : {"auto", "best-first", "symmetric"}, default="auto"
        "best-first" splits the leaf that gains most, wherever it is. "symmetric" splits all leaves of a level by the
        same feature and threshold. "auto" grows directional trees symmetric, unless there are more than 32,768
        samples or fewer than four possible splits for each class. The paper's methods grow best-first.
    max_depth : int or None, default=None
        Most splits from the root to a leaf: all levels of a symmetric tree (6, and 7 from 3,200 samples on), or a limit
        for trees grown best-first (none).
    trees_per_round : int or None, default=None
        Directional trees grown side by side from the same probabilities (1, and from 8,192 samples on a quarter of the
        number of classes, from 2 to 8, or from 4 to 8 where there are more than 32,768 samples).
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
    min_samples_leaf : int or None, default=None
        Smallest number of rows of a leaf, whatever they weigh (1 / 10). In a symmetric tree,
        a leaf that a split would leave with fewer adds nothing to the gain of that split. "mart" and "abcmart", whose
        gains divide by weights, count the weight of the rows.
    pair_samples_per_leaf : float, default=4.0
        A tree of a class and the base class has at most one leaf per this many samples of the two (or this much of
        their total weight), but never fewer than two leaves: with few samples of each class larger trees fit noise. 0
        is no limit, as in the paper.
    min_child_weight : float, default=0.0
        Smallest sum of hessians of a leaf, which are in proportion to the weights.
    min_split_gain : float, default=0.0
        Smallest gain of a split; of a symmetric tree, of all splits of a level together.
    reg_alpha : float, default=0.0
        L1 regularisation of leaf values: taken from the absolute value of their numerators.
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
        Largest number of bins of a feature, up to 255 (one per 64 samples, but from 64 to 255 / 255). Missing
        values have a bin of their own, and so has every category.
    subsample : float, default=1.0
        Share of the samples drawn for each round's trees, without replacement.
    colsample : float, default=1.0
        Share of the features drawn for each tree.
    max_features : float, default=1.0
        Share of a tree's features drawn for each node, or for each level of a symmetric tree; at least one.
    interaction_constraints : "pairwise", "no_interactions", list of lists or None, default=None
        Groups of columns, by names or indices, that may be split on along a branch: only columns of one group are.
        Columns that are in none are one more group. With "no_interactions" every column is a group.
    categorical_features : "from_dtype", None or list, default="from_dtype"
        Features whose values are names rather than amounts. With "from_dtype" the columns of strings and of pandas,
        polars or Arrow categories; else a list of column names, of column indices or of a boolean for every column.
        Levels keep the order of ordered categories, others are sorted. Up to 254 levels are told apart; if there are
        more, the 253 most frequent, and the rest count as one. Levels that the training data does not have are
        missing values, or such a rest.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, multiplied with the sample weights: those in the dict, 1 for all others; "balanced" gives
        all classes the same total weight.
    early_stopping : "auto" or bool, default="auto"
        Whether to stop when a metric of an evaluation set does not improve any more. "auto" does so unless
        `n_estimators` is given, if there is an `eval_set` or at least 200 rows.
    early_stopping_rounds : int or None, default=None
        Stop early, after this many rounds without improvement (100 if early stopping is on for another reason).
    validation_fraction : float, default=0.1
        Share of the training data set aside for early stopping if there is no `eval_set`.
    refit : bool, default=True
        After early stopping by a share of the training data, train anew on all of it for as many rounds as were best.
    eval_metric : str, callable or list of them, default="logloss"
        "logloss", "error", "accuracy", "balanced_accuracy", "f1_macro", "auc" (mean of one class against the rest),
        "brier", "top_3" and the like, a scorer of scikit-learn or its name, or a function (y_true, y_proba) -> (name,
        value, higher_is_better). Early stopping looks at all of them.
    calibration : "temperature" or None, default=None
        Divide all scores by one number, such that the log loss of the first evaluation set, or of the share that is set
        aside, is least.
    warm_start : bool, default=False
        Let a second fit go on from the first: `n_estimators` then counts the rounds of both. On the same data, with the
        same `random_state`, the model is that of one fit up to rounding, as long as the first fit was not cut at its
        best round: directions are then drawn anew. For early stopping give it an `eval_set`: rows that it sets aside
        itself may be those that the first fit was trained on.
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
        Distinct trees grown, those of base classes that were not chosen included.
    guarded_rounds_ : int
        Number of rounds in which `guard` stepped in.
    evals_result_ : dict
        evals_result_[name of evaluation set][metric] is a list with one value per round of this fit, of which
        `rounds_before_` says where they begin. After a refit it is of the training before, the one with evaluation
        sets.
    n_iter_ : int
        Number of rounds that the model has.
    best_iteration_ : int
        Number of rounds that `predict` uses: with early stopping those up to the best one, else all.
    best_score_ : dict
        best_score_[name of evaluation set][metric] is the value after the best round; of rows that the fit held out
        itself, "validation", always with "logloss" and "error".
    stopped_because_ : str
        Why training ended: early stopping, a callback, or all rounds were done, perhaps before early stopping ended it.
    rounds_before_ : int
        Rounds that were there before the fit, those of the model that it went on from (`warm_start`, `init_model`).
    temperature_ : float
        What `calibration` has divided the scores by; `train_loss_` and `evals_result_` are from before. After a warm
        start it is the divisor of that fit alone, which has divided all rounds, the earlier ones once more.
    feature_importances_ : array of shape (n_features,)
        Share of each feature in the total gain; see `feature_importance` for other kinds.
    model_ : TreeEnsemble
        The trees.

    Notes
    -----
    `shap.TreeExplainer` and `shap.Explainer` do not know this class: `abc_plugins.explain(model)` makes an explainer.

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
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        num_leaves: int | None = None,
        tree_shape: str = "auto",
        max_depth: int | None = None,
        trees_per_round: int | None = None,
        search: int | str = 1,
        gap: int = 0,
        warmup: int = 0,
        base_choice: str = "drawn",
        min_samples_leaf: int | None = None,
        pair_samples_per_leaf: float = 4.0,
        min_child_weight: float = 0.0,
        min_split_gain: float = 0.0,
        reg_alpha: float = 0.0,
        reg_lambda: float | None = None,
        leaf_reg_lambda: float | None = None,
        leaf_clip: float | None = 50.0,
        leaf_values: str = "sequential",
        guard: bool = True,
        start_scores: str | None = None,
        max_bins: int | None = None,
        subsample: float = 1.0,
        colsample: float = 1.0,
        max_features: float = 1.0,
        interaction_constraints: Any = None,
        categorical_features: Any = "from_dtype",
        class_weight: Any = None,
        early_stopping: str | bool = "auto",
        early_stopping_rounds: int | None = None,
        validation_fraction: float = 0.1,
        refit: bool = True,
        eval_metric: Any = "logloss",
        calibration: str | None = None,
        warm_start: bool = False,
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
        self.min_split_gain = min_split_gain
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.leaf_reg_lambda = leaf_reg_lambda
        self.leaf_clip = leaf_clip
        self.leaf_values = leaf_values
        self.guard = guard
        self.start_scores = start_scores
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample = colsample
        self.max_features = max_features
        self.interaction_constraints = interaction_constraints
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.early_stopping_rounds = early_stopping_rounds
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.eval_metric = eval_metric
        self.calibration = calibration
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.on_interrupt = on_interrupt
        self.verbose = verbose

    @with_hints
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        callbacks: Sequence[Any] | None = None,
        resume_from: str | os.PathLike[str] | None = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        eval_names: Sequence[str] | None = None,
        init_model: Any = None,
        init_score: Any = None,
        eval_init_score: Any = None,
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
            A weight of 2 equals a row given twice, but for `min_samples_leaf`, which counts rows; 0 is a row left out.
            Of fractions only the ratios matter.
        eval_set : list of (X, y) or (X, y, sample_weight), optional
            Samples to score after every round, called "valid_0", "valid_1", ... unless `eval_names` says otherwise.
        callbacks : list, optional
            See `abc_plugins.callbacks`.
        resume_from : path, optional
            A file that `abc_plugins.callbacks.checkpoint` wrote in a training with the same data and parameters (but
            perhaps fewer `n_estimators`, other `n_jobs` or `verbose`): go on from there. The model is the same, bit for
            bit, as if training had not been interrupted.
        X_val, y_val, sample_weight_val : table and array-likes, optional
            One evaluation set, called "validation", in place of `eval_set`. A scikit-learn Pipeline transforms it with
            `transform_input=["X_val"]`.
        eval_names : list of str, optional
            Names of the sets in `eval_set`.
        init_model : ABCBoostClassifier or path, optional
            A fitted model, or its file, to go on from, on the same data or new: `n_estimators` rounds more. It must
            have the same columns, and all labels in y. Early stopping needs an `eval_set` as with `warm_start`, and on
            the same data the model is that of one fit likewise; files of more than 128 classes do not keep directions.
        init_score : array-like of shape (n_samples, n_classes), optional
            Scores to begin with, for classes in ascending order. The model does not contain them: add them to its
            `decision_function`.
        eval_init_score : list of array-like, optional
            Likewise for the sets in `eval_set`, or one array for `X_val`.

        Returns
        -------
        self
        """
        sets = list_eval_sets(eval_set, eval_names, eval_init_score, X_val, y_val, sample_weight_val)
        before = self._read_init_model(init_model)
        resumption = read_resumption(resume_from, self)
        seed = draw_seed(self.random_state, resumption)
        self._check_parameters(seed)
        metrics = Metrics(self.eval_metric)
        threads = self._n_threads()
        hooks = CallbackList(callbacks).callbacks
        given = read_given(
            X,
            y,
            sample_weight,
            class_weight=self.class_weight,
            categorical=check_categorical_features(self.categorical_features),
            init_score=init_score,
            before=before,
        )
        stopping = self._choose_stopping(given.n_samples, bool(sets))
        check_beginning(init_score, sets, self.calibration, has_sets=bool(sets) or stopping.held_out_share is not None)
        settings = self._settle(seed, stopping, given, before if init_model is None else None)
        if resumption is not None:
            resumption.check_rounds(settings.n_estimators)
        own = [log_evaluation(int(self.verbose))] if self.verbose else []
        fit = Fit(self, given, sets, settings, stopping, metrics, [*own, *hooks], seed, resumption, before)
        with Workers(threads) as workers:
            run, categories = fit.run(workers)
        self._keep(run, given.classes, given.features.names, categories)
        return self

    def _read_init_model(self, init_model: Any) -> FittedClassifier | None:
        """The model that training goes on from."""
        if init_model is None:
            return self if self.warm_start and hasattr(self, "model_") else None
        if isinstance(init_model, str | os.PathLike):
            return type(self).load_model(init_model)
        if not isinstance(init_model, FittedClassifier):
            fail("init_model", init_model, "a fitted ABCBoostClassifier, the path of a model file, or None", TypeError)
        check_is_fitted(init_model)
        return init_model

    def _settle(self, seed: int, stopping: Stopping, given: GivenData, warm: FittedClassifier | None) -> Settings:
        """The settings of a fit, now that its data is known; with a warm start `n_estimators` counts all rounds."""
        settings = self._check_parameters(seed, stops_early=stopping.patience is not None)
        n_classes, n_features = given.classes.size, given.values.shape[1]
        check_search(self.search, n_classes if settings.is_adaptive and n_classes > 2 else None)
        groups = interaction_groups(settings.interaction_constraints, given.features.names, n_features)
        n_rounds = settings.n_estimators - (0 if warm is None else warm.best_iteration_)
        if n_rounds < 0:
            fail("n_estimators", settings.n_estimators, f"at least the {warm.best_iteration_} rounds that there are")  # type: ignore[union-attr]
        return replace(settings, interaction_constraints=groups, n_estimators=n_rounds)

    def _choose_stopping(self, n_samples: int, has_eval_sets: bool) -> Stopping:
        return choose_stopping(
            self.early_stopping,
            self.early_stopping_rounds,
            self.n_estimators,
            self.validation_fraction,
            self.refit,
            n_samples=n_samples,
            has_eval_sets=has_eval_sets,
        )

    def _check_parameters(self, seed: int, stops_early: bool | None = None) -> Settings:
        """Check every parameter before any work is done; None stands for a default that depends on `stops_early`."""
        check_stopping(self.early_stopping, self.early_stopping_rounds, self.validation_fraction, self.refit)
        check_categorical_features(self.categorical_features)
        check_choice("on_interrupt", self.on_interrupt, ("raise", "keep"))
        if self.calibration is not None:
            check_choice("calibration", self.calibration, ("temperature",))
        check_flag("warm_start", self.warm_start)
        if not isinstance(self.verbose, bool | np.bool_):
            check_integer("verbose", self.verbose, minimum=0)
        names = set(Settings.__dataclass_fields__) - {"seed"}
        if stops_early is None:
            stops_early = is_asked_to_stop(self.early_stopping, self.early_stopping_rounds)
        return check_settings(seed=seed, stops_early=stops_early, **{name: getattr(self, name) for name in names})

    def _check_all_parameters(self) -> None:
        """Check that the parameters, as far as they do not depend on data, could be those of a fit."""
        self._check_parameters(seed=0)
        self._n_threads()
