"""From bins to the trees of a round: histograms, splits, growth."""
