"""A prepared run, the one loop, and what it leaves behind."""
