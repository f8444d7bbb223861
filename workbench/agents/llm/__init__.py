"""Roles filled by language models behind any server that speaks OpenAI's protocol.

A model's words are data from a stranger: they become cards and kernels of limited size, nothing else.
They reach no shell and no path; in a later prompt they stand quoted; a kernel is judged like any other.
"""
