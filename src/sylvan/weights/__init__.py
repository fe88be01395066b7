"""The weights of a layer: per cluster, changed, in four bits."""
