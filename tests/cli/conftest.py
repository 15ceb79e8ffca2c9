"""Keeps the modules that recipes import out of the collection: they must be defined once."""

collect_ignore = ["recipes"]
