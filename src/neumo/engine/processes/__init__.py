"""Several processes that do one thing together, and what ends or slows them."""
