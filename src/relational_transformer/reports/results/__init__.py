"""What was measured, found again and judged: the results of run folders, beside the numbers of the paper."""
