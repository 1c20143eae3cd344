"""What commands show in a terminal while they run, and read from its keyboard."""
