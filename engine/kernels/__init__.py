"""The numeric operations of a forward, each with its definition and its fast forms."""
