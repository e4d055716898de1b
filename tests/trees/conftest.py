"""Groups of features of every size."""

import pytest

from abc_plugins.core.bins import columns as columns_module


@pytest.fixture(params=["one group", "several groups", "a group a feature"])
def group_size(request, monkeypatch):
    sizes = {"one group": 32768, "several groups": 60, "a group a feature": 1}
    monkeypatch.setattr(columns_module, "_CELLS_PER_GROUP", sizes[request.param])
