"""ABC-Boost with xgboost.spark: the callback does it. Needs pyspark and Java; two local Spark tasks."""

import os
import sys

import pandas as pd
from pyspark.sql import SparkSession
from sklearn.datasets import load_digits
from xgboost.spark import SparkXGBClassifier

from abc_plugins.xgb import ABCBoost, base_classes

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the tasks need the packages of this environment
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
X, y = load_digits(return_X_y=True)
columns = [f"pixel{i}" for i in range(64)]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.createDataFrame(pd.DataFrame(X, columns=columns).assign(label=y))
model = SparkXGBClassifier(
    features_col=columns,
    label_col="label",
    num_workers=2,
    n_estimators=15,
    max_depth=4,
    callbacks=[ABCBoost(method="abcrobustlogit", search=2, gap=10, warmup=5)],
).fit(table)
print("base classes:", base_classes(model.get_booster()))
spark.stop()
