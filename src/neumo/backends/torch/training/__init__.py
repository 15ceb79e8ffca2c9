"""Training with torch: one step, the optimizers, averages of weights."""
