"""Typed bodies of each wire format, to and from our values."""
