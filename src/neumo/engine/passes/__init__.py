"""Running graphs over data outside a training: evaluation, inference, dry runs."""
