"""Fresh inputs, error bounds and comparisons against float64. Runs in worker children; imports torch."""
