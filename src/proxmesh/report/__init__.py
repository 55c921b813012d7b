"""Figures from run folders and graphs."""
