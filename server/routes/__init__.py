"""One module per route: parse, call, reply."""
