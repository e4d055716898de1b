"""From raw values to the trees of a round: bins, histograms, splits, growth."""
