"""Data sets, files, shards, and how they are dealt out to agents."""
