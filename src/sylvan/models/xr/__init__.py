"""XR-Linear: a tree of linear models, trained layer by layer."""
