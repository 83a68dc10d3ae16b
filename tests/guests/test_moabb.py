"""MOABB: benchmarks of brain-computer interfaces.

MOABB's paradigms return arrays (samples, channels, times), so any of our models can be one of its pipelines. Two
classes are scored by the area under the ROC curve, from `decision_function`; probabilities are not needed.
"""

from __future__ import annotations

import pytest

REASON = "needs MOABB: pip install moabb"
pytest.importorskip("moabb", reason=REASON)
evaluations = pytest.importorskip("moabb.evaluations", reason=REASON)

pytestmark = pytest.mark.filterwarnings("ignore")  # MOABB's own and MNE's

from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler


@pytest.fixture(scope="module")
def fake():
    """Return MOABB's fake data set: 2 subjects with 2 sessions of 16 trials, 3 channels."""
    import mne
    from moabb.datasets.fake import FakeDataset

    with mne.utils.use_log_level("error"):
        yield FakeDataset(
            ["left_hand", "right_hand"], n_sessions=2, n_runs=1, n_subjects=2, seed=0, n_events=16, duration=60
        )


def test_evaluation_as_in_its_tutorials(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("MOABB_RESULTS", str(tmp_path))
    dataset = fake
    # page: An evaluation; `dataset` is one of MOABB's:
    from moabb.evaluations import CrossSessionEvaluation
    from moabb.paradigms import LeftRightImagery
    from sklearn.pipeline import make_pipeline

    from tensormargin import TensorMarginClassifier, TensorScaler

    pipelines = {"rank one": make_pipeline(TensorScaler(per=0), TensorMarginClassifier("cp", rank=1))}
    paradigm = LeftRightImagery(fmin=8, fmax=32, resample=64)
    results = CrossSessionEvaluation(paradigm, datasets=[dataset]).process(pipelines)
    results[["subject", "session", "score"]]
    # page ends
    assert len(results) == 4
    assert results["score"].between(0, 1).all()
    assert any(tmp_path.rglob("*"))


@pytest.mark.parametrize("kind", ["WithinSessionEvaluation", "CrossSubjectEvaluation"])
def test_other_evaluations_and_the_search(kind, fake, tmp_path):
    from moabb.paradigms import LeftRightImagery

    pipelines = {
        "one": make_pipeline(TensorScaler(0), TensorMarginClassifier("cp", 1)),
        "search": TensorMarginClassifierCV(("cp", "full"), (1,), (1,), (1,), cv=2, random_state=0),
    }
    paradigm = LeftRightImagery(fmin=8, fmax=32, resample=32)
    evaluation = getattr(evaluations, kind)(paradigm, datasets=[fake], hdf5_path=str(tmp_path), random_state=0)
    results = evaluation.process(pipelines)
    assert results.groupby("pipeline").size().tolist() == [4, 4]
    assert results["score"].between(0, 1).all()
