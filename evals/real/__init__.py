"""Documented runs on real data that is read from installed packages and never copied."""
