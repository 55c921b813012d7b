"""Progress of a run, shown where it can be seen: terminal, notebook, log."""
