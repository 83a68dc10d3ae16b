"""Optuna: hyperparameter optimisation.

`lam`, `mu1` and `mu2` are plain numbers, and scale-free: a range for them does not depend on the unit of the samples.
`rank` is an upper bound, which "full" ignores, so no combination of decomposition and rank fails.
"""

from __future__ import annotations

import numpy as np
import pytest

optuna = pytest.importorskip("optuna", reason="needs Optuna: pip install optuna")

from conftest import low_rank_classes

from tensormargin import TensorMarginClassifier

X, SIGNS = low_rank_classes(0, 40, (4, 5), 4.0)
Y = np.where(SIGNS > 0, "yes", "no")


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def test_studies_do_not_abort():
    y = Y
    # page: A study over decomposition, rank and λ:
    import optuna
    from sklearn.model_selection import cross_val_score

    from tensormargin import TensorMarginClassifier

    def objective(trial):
        clf = TensorMarginClassifier(
            trial.suggest_categorical("decomposition", ["full", "cp", "tucker", "tt"]),
            rank=trial.suggest_int("rank", 1, 8),
            lam=trial.suggest_float("lam", 0.01, 100, log=True),
        )
        return cross_val_score(clf, X, y, cv=3, error_score="raise").mean()

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=12)
    model = TensorMarginClassifier(**study.best_params).fit(X, y)
    # page ends
    assert all(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials)
    assert {trial.params["decomposition"] for trial in study.trials} > {"full"}
    assert study.best_value > 0.7
    assert model.score(X, y) > 0.8


def test_every_decomposition_takes_every_rank():
    grid = {"decomposition": ["full", "cp", "tucker", "tt"], "rank": [1, 3, 50]}

    def objective(trial):
        parameters = {name: trial.suggest_categorical(name, values) for name, values in grid.items()}
        return TensorMarginClassifier(**parameters, tol=0.1).fit(X, Y).score(X, Y)

    study = optuna.create_study(sampler=optuna.samplers.GridSampler(grid))
    study.optimize(objective)
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.COMPLETE] * 12


@pytest.mark.filterwarnings("ignore")  # OptunaSearchCV is experimental, which it says
def test_its_search():
    pytest.importorskip("optuna_integration", reason="needs Optuna's integration: pip install optuna-integration")
    y = Y
    # page: `OptunaSearchCV` of `optuna-integration`:
    from optuna.distributions import FloatDistribution
    from optuna_integration import OptunaSearchCV

    from tensormargin import TensorMarginClassifier

    search = OptunaSearchCV(TensorMarginClassifier("cp"), {"lam": FloatDistribution(0.01, 100, log=True)}, cv=3)
    search.fit(X, y).best_params_["lam"]
    # page ends
    assert search.score(X, y) > 0.8
