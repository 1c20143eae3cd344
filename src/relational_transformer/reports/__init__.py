"""From measured results to tables beside the paper's numbers."""
