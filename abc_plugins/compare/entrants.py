"""Who may take part in a comparison, and who does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar

from abc_plugins.core.runtime.checks import fail


@dataclass(frozen=True)
class Entrant:
    """A classifier that may take part.

    Attributes
    ----------
    key : str
        Its name on the command line.
    title : str
        Its name in tables and pictures.
    package : str
        The package it needs.
    extra : str or None
        What to install for it; None if it is always there.
    """

    key: str
    title: str
    package: str
    extra: str | None

    @property
    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.package) is not None


AnyEntrant = TypeVar("AnyEntrant", bound=Entrant)


def pick(entrants: Sequence[AnyEntrant], keys: Sequence[str] | None) -> list[AnyEntrant]:
    """Pick entrants by their keys, in their own order; None is all that are installed.

    An entrant that is named must be installed.
    """
    known = {entrant.key: entrant for entrant in entrants}
    if keys is None:
        return [entrant for entrant in entrants if entrant.is_installed]
    for key in keys:
        if key not in known:
            fail("engines", key, f"some of {', '.join(known)}")
        if not known[key].is_installed:
            raise ModuleNotFoundError(f"{key} needs {known[key].package}: pip install {known[key].extra}")
    return [entrant for entrant in entrants if entrant.key in keys]
