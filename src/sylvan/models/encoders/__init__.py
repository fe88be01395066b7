"""Text encoders as parts of models: as parameters, in a saved model's files, and the vectors that they give."""
