"""The roles of the team and the brains that fill them."""
