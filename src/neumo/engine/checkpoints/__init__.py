"""What is kept in a run folder and found again: checkpoints, files of weights, lines of logs."""
