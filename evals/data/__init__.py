"""Labelled data: reading files, importing them with a report, splits, labels, and rows handed out."""
