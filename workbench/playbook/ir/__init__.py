"""What a graph is lowered to: expressions over index spaces, views, stores, kernels, sizes with symbols."""
