"""Parsers of files that may be damaged or hostile, and the process that runs those of native code.

Only NumPy and the standard library are imported here: the process must start quickly.
"""
