"""Models on the Hugging Face Hub: a model's folder is pushed and pulled as it is, verified both times.

Needs the extra ``hub`` (``pip install "sylvan[hub]"``), which is loaded when the Hub is first asked.
"""

from sylvan.hub.mixin import HubMixin
from sylvan.hub.pull import from_pretrained, pull
from sylvan.hub.push import Pushed, push

__all__ = ["HubMixin", "Pushed", "from_pretrained", "pull", "push"]
