"""Weights in 8 bits: which layouts there are, how values are rounded, which scheme suits a card."""
