"""Screens for pack authors. To come."""
