"""The frameworks that run graphs: one room each, found by name."""
