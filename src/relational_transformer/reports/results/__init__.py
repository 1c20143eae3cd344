"""The results in run folders, and their comparison with the paper's numbers."""
