"""
Checkpoints, and callbacks of your own
======================================

A training that was killed goes on where it was, and ends with the same model, bit for bit.
"""

# %%
# A callback sees every round and may stop the training. This one "crashes" in round 40.
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from abc_plugins import ABCBoostClassifier
from abc_plugins.callbacks import Callback, checkpoint

X, y = load_digits(return_X_y=True)


class Crash(Callback):
    """Raise an error after some rounds."""

    def after_round(self, context):
        """Look at the number of the round."""
        if context.round_index == 40:
            raise RuntimeError(f"power cut at a training loss of {context.train_loss:.1f}")


model = ABCBoostClassifier(n_estimators=80, random_state=0, n_jobs=1)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "run.checkpoint")
try:
    model.fit(X, y, callbacks=[checkpoint(path, every_rounds=10), Crash()])
except RuntimeError as error:
    print(error)

# %%
# The file holds the state after the last tenth round. ``resume_from`` goes on from there.
model.fit(X, y, callbacks=[checkpoint(path, every_rounds=10)], resume_from=path)
undisturbed = ABCBoostClassifier(n_estimators=80, random_state=0, n_jobs=1).fit(X, y)
print("rounds:", model.n_iter_)
print("the same model:", np.array_equal(model.predict_proba(X), undisturbed.predict_proba(X)))
folder.cleanup()
