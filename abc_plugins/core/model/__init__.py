"""The model that training leaves: trees, prediction, model file and checkpoint file."""
