"""Labelled data, scores kept for ever, thresholds that hold. Arrives with the evals issue."""
