"""Raw values to bins, and bins to the layout of the tree kernels."""
