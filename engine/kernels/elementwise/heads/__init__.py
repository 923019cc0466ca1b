"""Heads of a fused projection: split, normed, rotated."""
