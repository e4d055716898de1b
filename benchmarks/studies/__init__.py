"""Parts of tuning_studies.py."""
