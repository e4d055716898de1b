"""Tests of LightGBM and XGBoost that fail with the adapter and are right to: pattern of the name, reason."""

from __future__ import annotations

BY_DESIGN: dict[str, dict[str, str]] = {"lightgbm": {}, "xgboost": {}}
