"""What people see of a session: notebook panel, terminal, HTML page, data frame. Never changes a tree."""
