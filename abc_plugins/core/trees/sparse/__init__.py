"""Features of which most samples share one bin, and only the bins of the others are kept."""
