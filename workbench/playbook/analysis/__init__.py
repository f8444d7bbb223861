"""What can be read off a lowered program: passes over rows, what waits, what is shared or joined."""
