"""From the op graph to stores and library calls: one module for each kind of operation."""
