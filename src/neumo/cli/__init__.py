"""The command `neumo`: one small file a verb, loaded when that verb runs."""
