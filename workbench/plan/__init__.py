"""The plan language: the host side of a candidate, parsed and interpreted, never executed."""
