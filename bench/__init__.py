"""Benchmarks of Sardonyx: the models that are measured, and its peers beside it."""
