"""Runs a candidate's CUDA C++ on the CPU: right or wrong, and what it did to memory; never how fast."""
