"""The game: its levels, its rules for many games at once, and what an agent sees of them."""
