"""Commands that measure and check: bench, doctor."""
