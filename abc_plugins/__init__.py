"""Fast ABC-Boost: multi-class gradient boosting with an adaptive base class."""
