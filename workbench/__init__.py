"""Screens for pack authors. Arrives with the workbench issue."""
