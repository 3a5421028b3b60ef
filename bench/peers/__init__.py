"""Sardonyx and its peers on the same models, machine and threads, side by side in one run."""
