"""What the verbs show: a model's card, its tree, figures and reports."""
