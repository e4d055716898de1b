"""ABC-Boost on a Dask cluster; here the workers are two processes on this machine."""

import dask.array as da
from distributed import Client, LocalCluster
from sklearn.datasets import load_digits

from abc_plugins.xgb import base_classes
from abc_plugins.xgb import dask as abc_dask


def main() -> None:
    """Train with the functional interface and with the estimator."""
    X, y = load_digits(return_X_y=True)
    params = {"num_class": 10, "max_depth": 4, "eval_metric": "merror"}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        X_rows, y_rows = da.from_array(X, chunks=(600, 64)), da.from_array(y, chunks=600)
        data = abc_dask.DaskDMatrix(client, X_rows, y_rows)
        results = abc_dask.train(client, params, data, 20, evals=[(data, "train")], verbose_eval=False)
        print("training errors by round:", [round(value, 3) for value in results["history"]["train"]["merror"]])
        print("base classes:", base_classes(results["booster"]))
        model = abc_dask.ABCDaskXGBClassifier(n_estimators=20, max_depth=4).fit(X_rows, y_rows)
        print("accuracy on the training rows:", (model.predict(X_rows).compute() == y).mean())


if __name__ == "__main__":  # workers import this file
    main()
