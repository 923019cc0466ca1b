"""spinf-serve: read a content once, answer hundreds of closed questions about it as probabilities."""

__version__ = "0.1.0"
