"""Where examples come from: numpy's random streams, the inputs drawn from them, and streams of fresh examples."""
