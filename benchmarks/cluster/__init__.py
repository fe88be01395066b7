"""Trainings on a Ray cluster beside one process: what is lost, and that the bits are the same."""
