"""The game: its levels, its rules for many games at once, and the agent's observations."""
