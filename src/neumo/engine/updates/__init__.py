"""How weights change, as specifications: optimizers, groups of weights, schedules, precisions."""
