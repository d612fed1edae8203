"""What the settings of the suite promise."""

import pathlib
import uuid

import jax


def test_what_a_test_compiles_is_kept_for_other_files_and_processes():
    # No module may turn the cache off when it is imported: all files of tests are before the first test runs.
    def function(x):
        return x + 1

    function.__name__ = f"kept_{uuid.uuid4().hex}"
    jax.jit(function).lower(1.0).compile()
    (kept,) = pathlib.Path(jax.config.jax_compilation_cache_dir).glob(f"jit_{function.__name__}-*")
    kept.unlink()
