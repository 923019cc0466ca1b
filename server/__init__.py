"""HTTP around one engine."""
