"""Encoders of texts: XRTransformer and XTransformer beside XRLinear and libpecos's XR-Transformer."""
