"""IRLI's learned partitions beside faiss's indexes, k-means partitions and XRLinear."""
