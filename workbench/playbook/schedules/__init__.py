"""A technique vector with every choice spelled out, and fitted to one kernel."""
