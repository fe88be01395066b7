"""Models on the Hugging Face Hub: a model's folder is pushed and pulled as it is, verified both times.

Needs the extra ``hub`` (``pip install "sylvan[hub]"``), which is loaded when the Hub is first asked.
"""

from sylvan.hub.push import push
from sylvan.remote.client import Pushed, from_pretrained, pull

__all__ = ["Pushed", "from_pretrained", "pull", "push"]
