"""Batch files: many requests in a file, answered below everything that somebody waits for."""
