"""What the command needs to know of a way to compare."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abc_plugins.compare.page_parts import Picture
from abc_plugins.data.datasets import Dataset

Runs = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class View:
    """A way to compare.

    Attributes
    ----------
    check_options : function
        Refuses options before any data is read.
    make_plan : function
        (options, data set) -> plan.
    run : function
        (plan, folder, fresh=, progress=) -> all fits.
    make_results : function
        (options, plan, fits) -> what results.json holds.
    as_text, render_page : function
        Results as text, and with pictures as a page.
    draw_all : function
        (plan, fits, results, folder) -> pictures.
    point_columns : sequence of str
        Columns of results.csv.
    """

    check_options: Callable[[argparse.Namespace], None]
    make_plan: Callable[[argparse.Namespace, Dataset], Any]
    run: Callable[..., list[dict[str, Any]]]
    make_results: Callable[[argparse.Namespace, Any, Runs], dict[str, Any]]
    as_text: Callable[[dict[str, Any]], str]
    render_page: Callable[[dict[str, Any], Sequence[Picture]], str]
    draw_all: Callable[[Any, Runs, dict[str, Any], Path], list[Picture]]
    point_columns: Sequence[str]
