"""Annif's backends beside Sylvan's, by Annif's own commands."""
