"""What there is to know of a saved model: its card, its history, its trees as drawings."""

from sylvan.hub.cards import Description

__all__ = ["described_folder"]


def described_folder(folder: str, repository: str) -> Description:
    """The model in ``folder`` as the Hugging Face Hub's part asks for it. The card is loaded when a model is pushed:
    ``import sylvan`` does without."""
    from sylvan.models.cards.hub_card import hub_description

    return hub_description(folder, repository)
