"""Several processes: joining them, and dividing the work and the weights among them."""
