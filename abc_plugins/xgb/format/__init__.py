"""The bytes of XGBoost's model files."""
