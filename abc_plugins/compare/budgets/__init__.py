"""The same rounds, trees or seconds for all, and the same settings: what the methods bring round by round."""

from __future__ import annotations
