"""Fleets that learn a number for each graph: batches by size, models run layer by layer, the step, the evaluation."""
