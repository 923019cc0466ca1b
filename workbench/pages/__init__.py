"""The pages of the workbench: each shows what actions give and calls them; none computes anything."""
