"""One study on the workers of a Dask cluster: every worker runs `tune` with the same storage.

The storage must be reachable from all machines: a journal file in a shared folder as here, or the URL of a database.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from dask.distributed import Client, LocalCluster
from sklearn.datasets import load_digits

from abc_plugins.tuning.result import summary_text
from abc_plugins.tuning.study.storage import WORKER
from abc_plugins.tuning.study.trials import finished_trials
from tuning import load_study, tune


def work(storage: str, n_trials: int, max_rounds: int) -> int:
    """Take part in the study until it has all its trials; runs on a worker."""
    X, y = load_digits(return_X_y=True)
    done: list[int] = []
    tune(
        X,
        y,
        n_trials=n_trials,
        cv=3,
        max_rounds=max_rounds,
        storage=storage,
        refit=False,
        callbacks=[lambda _, trial: done.append(trial.number)],
        progress=False,
    )
    return len(done)


def main() -> None:
    """Start a cluster on this machine and let its workers share a study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--max-rounds", type=int, default=200)
    options = parser.parse_args()
    storage = str(Path(tempfile.mkdtemp()) / "study.log")
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        addresses = list(client.scheduler_info()["workers"])
        futures = [
            client.submit(work, storage, options.trials, options.max_rounds, workers=[address], pure=False)
            for address in addresses
        ]
        client.gather(futures)
    study = load_study(storage, None)
    print(summary_text(study))
    processes = [trial.user_attrs[WORKER]["pid"] for trial in finished_trials(study)]
    print(f"{len(processes)} trials by {len(set(processes))} workers")


if __name__ == "__main__":
    main()
