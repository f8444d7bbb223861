"""Rewrites of the op graph by algebra, before anything is lowered."""
