"""No file of a model on the Hub is a link to somewhere else on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sylvan.errors import ModelError
from sylvan.remote.source import cache_of


def check_links(folder: str, places: Iterable[str]) -> None:
    """Refuse files that lie outside of ``folder``, but for the Hub's cache, whose snapshots are links to its blobs.
    Otherwise a folder from somebody else could have any file of this machine pushed, or read as a model."""
    root = os.path.realpath(folder)
    allowed, cache = [root], cache_of(root)
    if cache is not None:
        allowed.append(os.path.join(cache, "blobs"))
    for place in places:
        real = os.path.realpath(os.path.join(root, place))
        if not any(real.startswith(os.path.join(above, "")) for above in allowed):
            raise ModelError(f"{os.path.join(folder, place)!r} is a link that leads out of the folder, to {real!r}.")
