"""Proposals of signatures: read off an example call of any torch module."""
