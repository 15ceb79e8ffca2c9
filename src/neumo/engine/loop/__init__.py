"""One training: what it is told, how it is made ready, its steps, how it is saved and goes on."""
