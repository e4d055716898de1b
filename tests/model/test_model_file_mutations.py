"""Model files changed at random: each is a valid model or refused, by hypothesis."""

from __future__ import annotations

from dataclasses import fields

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from model_files import VERSION_1, loads_or_refuses, random_model, with_checksum

from abc_plugins.core.model import file as model_file
from abc_plugins.core.model.ensemble import FlatTrees
from abc_plugins.core.model.file import from_bytes, to_bytes

MODEL = to_bytes(*random_model(3, n_rounds=3))
BYTES_CHANGED = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4)
NUMBERS = st.sampled_from([0, 1, 2, 3, -1, 5, 2**31 - 1, -(2**31), 255]) | st.integers(-(2**31), 2**31 - 1)
of_both_versions = pytest.mark.parametrize("model", [MODEL, VERSION_1], ids=["version 2", "version 1"])


def with_bytes(model: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Change some bytes before the checksum."""
    data = bytearray(model)
    for position, value in changes:
        data[position % (len(model) - 4)] = value
    return bytes(data)


@of_both_versions
@settings(max_examples=1000, deadline=None)
@given(changes=BYTES_CHANGED)
def test_changed_bytes_are_refused_by_the_checksum(model: bytes, changes: list[tuple[int, int]]) -> None:
    data = with_bytes(model, changes)
    assert loads_or_refuses(data) == (data == model)


@of_both_versions
@settings(max_examples=1500, deadline=None)
@given(changes=BYTES_CHANGED)
def test_changed_bytes_with_a_right_checksum_load_or_are_refused(model: bytes, changes: list[tuple[int, int]]) -> None:
    loads_or_refuses(with_checksum(with_bytes(model, changes)))


@of_both_versions
@settings(max_examples=300, deadline=None)
@given(start=st.integers(0, 2**20), length=st.integers(0, 40), filling=st.binary(max_size=40))
def test_cut_and_filled_files_load_or_are_refused(model: bytes, start: int, length: int, filling: bytes) -> None:
    start %= len(model) + 1
    loads_or_refuses(with_checksum(model[:start] + filling + model[start + length :]))


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_changed_fields_load_or_are_refused(data: st.DataObject) -> None:
    header, trees = from_bytes(MODEL)
    name = data.draw(st.sampled_from([field.name for field in fields(FlatTrees)]))
    array = getattr(trees, name)
    values = {"f": st.floats(), "u": st.integers(0, 2**64 - 1)}.get(array.dtype.kind, NUMBERS)
    for _ in range(data.draw(st.integers(1, 3))):
        value = data.draw(values)
        array[data.draw(st.integers(0, array.size - 1))] = bool(value) if array.dtype.kind == "b" else value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_file, "check_trees", lambda *_: None)
        changed_file = to_bytes(header, trees)
    loads_or_refuses(changed_file)
