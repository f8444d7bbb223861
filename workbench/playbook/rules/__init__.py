"""The reasoner's rules: which vectors a search starts from, what it tries next, the words on a card."""
