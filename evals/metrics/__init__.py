"""How well scores and decisions agree with labels: pure functions on columns of numbers."""
