"""Campaigns: thousands of damaged files, tampered models, random problems and killed processes, from fixed seeds."""
