"""Around the round loop: evaluation sets, stopping, progress, checkpoints, and the model file of a classifier."""
