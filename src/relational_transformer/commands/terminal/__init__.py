"""What commands show in a terminal while they run."""
