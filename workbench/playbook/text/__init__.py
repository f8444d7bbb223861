"""How expressions, indices and statements of the plan language are spelt in a generated file."""
