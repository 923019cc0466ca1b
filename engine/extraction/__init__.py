"""Answers that are written and not chosen: searched text, numbers, amounts, and generated text."""
