"""Commands in the process, each test in an empty folder."""

from kit.commands import call, in_folder, place, refused  # noqa: F401
