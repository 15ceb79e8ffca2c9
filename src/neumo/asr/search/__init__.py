"""Search for what was said among the scores of a recogniser, with numpy alone."""
