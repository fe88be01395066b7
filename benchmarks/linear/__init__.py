"""Linear models on sparse features: XRLinear beside libpecos, omikuji, napkinXC and fastText."""
