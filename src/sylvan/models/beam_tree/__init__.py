"""BeamTreeClassifier: one class a row, out of very many (CANE's Beam Tree)."""
