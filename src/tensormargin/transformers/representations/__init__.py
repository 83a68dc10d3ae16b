"""Transformers from samples to what a linear model can use: maps along modes, spectra, covariances, convolutions."""
