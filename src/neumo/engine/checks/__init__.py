"""What is checked before an action, and of the values in it."""
