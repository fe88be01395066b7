"""BeamTreeClassifier beside its rivals, PyTorch's softmax and Vowpal Wabbit's trees."""
