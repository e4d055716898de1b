"""Data on its way in: tables, labels and weights of any library, table files, the data sets of comparisons."""
