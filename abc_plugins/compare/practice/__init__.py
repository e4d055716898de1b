"""The practice protocol: everybody used as people use boosting, stopped by the log loss of held-out samples."""

from __future__ import annotations
