"""What is tuned: the native booster, LightGBM and XGBoost behind one interface."""
