"""
Categories and missing values
=============================

Text, categories and missing values go in as they are: no encoder, no imputer.
"""

# %%
# A made-up table of parcels: a city, a carrier, a weight that is missing now and then, and a class to predict.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from abc_plugins import ABCBoostClassifier

rng = np.random.default_rng(0)
n = 3000
cities = np.array([f"city {i}" for i in range(60)])
city, carrier = rng.choice(cities, n), rng.choice(["road", "rail", "air"], n)
weight = rng.gamma(2.0, 3.0, n)
late = dict(zip(cities, rng.normal(size=60), strict=True))  # what a city adds to the delay
delay = np.array([late[name] for name in city]) + (carrier == "rail") + 0.1 * weight + 0.4 * rng.normal(size=n)
label = np.array(["early", "on time", "late", "very late"])[np.digitize(delay, np.quantile(delay, [0.2, 0.6, 0.85]))]
weight[rng.random(n) < 0.2] = np.nan
table = pd.DataFrame({"city": city, "carrier": pd.Categorical(carrier), "weight": weight})
train, test, y_train, y_test = train_test_split(table, label, test_size=0.3, random_state=0)
table.head()

# %%
# Columns of strings and of pandas' categories are categorical by themselves; ``categorical_features`` names others.
model = ABCBoostClassifier(n_estimators=150, random_state=0, n_jobs=1).fit(train, y_train)
print("categorical:", dict(zip(model.feature_names_in_, model.is_categorical_, strict=True)))
print(f"accuracy {model.score(test, y_test):.3f}")

# %%
# The same table with codes in alphabetical order instead: trees then cut the list of cities in two, whatever it means.
codes = make_pipeline(
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ABCBoostClassifier(n_estimators=150, random_state=0, n_jobs=1),
).fit(train, y_train)

figure, ax = plt.subplots(figsize=(6, 2.5), layout="constrained")
bars = ax.barh(["categories", "codes"], [model.score(test, y_test), codes.score(test, y_test)], color=["C0", "0.7"])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(xlim=(0, 1), xlabel="accuracy of held-out rows")

# %%
# A city that training has not seen counts as a missing value.
unseen = test.head(2).assign(city="elsewhere")
print(pd.DataFrame(model.predict_proba(unseen), columns=model.classes_).round(2))
