"""Fit times and memory compared with alternatives from other libraries; see `benchmarks.speed.__main__`."""
