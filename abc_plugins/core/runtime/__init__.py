"""What everything rests on: kernels and their cache, threads, argument checks, files that are replaced whole."""
