"""Shared torch layers and signal processing; each file holds one idea."""
