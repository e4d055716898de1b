"""Tune on digits, keep the study in a file, and write its report."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tuning import tune, write_report


def main() -> None:
    """Tune on half of the data and score the other half once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--max-rounds", type=int, default=200)
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    folder = Path(tempfile.mkdtemp())
    result = tune(
        X_train,
        y_train,
        n_trials=options.trials,
        cv=3,
        max_rounds=options.max_rounds,
        storage=folder / "study.db",
        test=(X_test, y_test),
    )
    print(result.summary())
    write_report(result.study, folder / "report.html")
    print(f"report: {folder / 'report.html'}")


if __name__ == "__main__":
    main()
