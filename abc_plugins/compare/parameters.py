"""Parameters of a classifier as JSON values."""

from __future__ import annotations

from typing import Any


def plain_parameters(model: Any) -> dict[str, Any]:
    """Parameters that are set."""
    kept = {name: value for name, value in model.get_params().items() if name not in ("callbacks", "missing")}
    return {
        name: value if isinstance(value, str | int | float | bool) else str(value)
        for name, value in kept.items()
        if value is not None
    }
