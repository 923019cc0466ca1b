"""The decision log: what was decided on which content and why, kept in one SQLite file."""
