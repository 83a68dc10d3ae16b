"""Fit times and memory against what a user would pick instead; see `benchmarks.speed.__main__`."""
