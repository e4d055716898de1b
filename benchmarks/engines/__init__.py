"""Stock LightGBM and XGBoost beside the adapters, for `adapters.py`."""
