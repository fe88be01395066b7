"""The texts and labels of the models that are pushed."""

TEXTS = ["the white whale", "whale hunting", "the sea and the whale", "poems of the sea", "poetry", "a poem"] * 4
LABELS = [["whaling"], ["whaling"], ["whaling", "sea"], ["poetry", "sea"], ["poetry"], ["poetry"]] * 4
