"""Methods that people in the field use, and ours, on many open tasks: ``python -m benchmarks.field --help``."""
