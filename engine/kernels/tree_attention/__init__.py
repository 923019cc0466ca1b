"""Attention over a trunk and the branches that continue it."""
