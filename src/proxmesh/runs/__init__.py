"""From a config to prepared runs: one, several compared, or a search."""
