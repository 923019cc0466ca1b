"""Labelled data, scores kept for ever, thresholds that hold. To come."""
