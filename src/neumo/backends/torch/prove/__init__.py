"""Proofs of signatures: what a module's code gives, compared with what its signature declares."""
