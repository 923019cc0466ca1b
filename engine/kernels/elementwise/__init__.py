"""Norms, rotary embedding and activations, row by row."""
