"""The choices of a technique vector: their values, when they apply, what they teach."""
