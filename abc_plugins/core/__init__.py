"""The native booster: schedule, losses, binning, trees, round loop, model and model file."""
