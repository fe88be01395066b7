"""Models of other libraries as Sylvan's: they rank as they did there, and save, load and serve like any other."""

from sylvan.importers.detect import detect, import_model
from sylvan.importers.libpecos import from_libpecos
from sylvan.importers.napkinxc import from_napkinxc
from sylvan.importers.omikuji import from_omikuji

__all__ = ["detect", "from_libpecos", "from_napkinxc", "from_omikuji", "import_model"]
