"""Matrix products whose rows do not depend on how many rows there are."""
