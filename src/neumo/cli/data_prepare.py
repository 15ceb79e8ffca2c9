"""x."""


def prepare() -> None:
    """X."""
