"""x."""


def kaldi() -> None:
    """X."""
