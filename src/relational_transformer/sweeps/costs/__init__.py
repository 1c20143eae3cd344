"""What runs cost: the floating-point operations of their matrix products, one file for each kind of run."""
