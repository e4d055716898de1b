"""What surrounds trials: storages, sampling, pruning, callbacks, interruption."""
