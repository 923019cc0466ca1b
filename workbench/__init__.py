"""The workbench: screens on which a pack is written, seen and made right. Computes nothing itself."""
