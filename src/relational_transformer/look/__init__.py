"""Pages to look at: an algorithm step by step, and beside it what trained networks make of it."""
