"""Reading batches of a data source as tensors, in this process or ahead of it in others."""
