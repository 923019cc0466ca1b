"""Written numbers and amounts: one grammar that limits what is searched and gives its value."""
