"""x."""


def vocab() -> None:
    """X."""
