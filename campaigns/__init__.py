"""Campaigns: hostile files, random problems and signals from fixed seeds, far more than the tests try."""
