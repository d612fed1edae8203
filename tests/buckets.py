"""A bucket in memory, for tests of paths that lead to one; `tests/conftest.py` has it as a fixture."""

from fsspec.implementations.memory import MemoryFileSystem


class Bucket(MemoryFileSystem):
    """A bucket in memory."""

    protocol = ("gs", "gcs")
    store = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + str(path).removeprefix("gs://").strip("/") if str(path).strip("/") else ""
