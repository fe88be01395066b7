"""XR-Transformer and X-Transformer: a fine-tuned text encoder that matches, and linear rankers behind it."""
