"""Builds the package: setuptools, and Cython for the modules that `ext-modules` in pyproject.toml names.

What must stay true:
- The compiled modules are plain Python. They are compiled only for speed, so a build never fails for want of a
  compiler, of Python's headers or of Cython: it warns, and the `.py` files, which are always in the wheel, are used.
- `GOODPUT_EXPORTER_PURE=1` leaves compilation out; so does an editable install, where machine code would hide edits.
- Intermediate files, generated C among them, lie in a temporary folder, so no build sees what an older one left.

This file is a PEP 517 backend whose hooks are those of setuptools; the commands below are named in pyproject.toml.
"""

import importlib.util
import multiprocessing
import os
import sys
import tempfile

from setuptools.build_meta import *  # noqa: F403  (the hooks)
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # C types stand in the .pxd beside a module; its annotations are for people and mypy
    "boundscheck": True,  # the decoder reads what strangers send
    "wraparound": True,  # as Python has it: a module must mean the same compiled and uncompiled
    "cdivision": False,  # likewise
}
"""Cython's compiler directives, for every compiled module."""
DIMENSIONS = 2
"""Those of a view, plus one, for which Cython makes room. Ours are flat; views are passed by value, and with the eight
that it has otherwise, each takes 208 bytes to copy."""

LOOPS = (
    "exporter.account",
    "exporter.decode.protobuf",
    "exporter.express",
    "exporter.grain",
    "exporter.histogram",
    "exporter.join",
    "exporter.marks",
    "exporter.memo",
    "exporter.pattern",
    "exporter.places",
    "exporter.recognise",
    "exporter.script",
    "exporter.series",
    "exporter.tally",
    "exporter.totals",
    "exporter.window",
)
"""Modules that are loops over bytes and numbers, where the optimiser earns its time. The others are calls of Python's
objects."""
FLAGS = ["-O2", "-g0"]
QUICK_FLAGS = ["-O1", "-g0"]
"""Somebody waits for the first installation."""

_scratch = tempfile.TemporaryDirectory(prefix="goodput-exporter-build-")


def wants_pure() -> bool:
    """Whether the user asked for a build without compiled modules."""
    return os.environ.get("GOODPUT_EXPORTER_PURE", "") not in ("", "0")


def has_cython() -> bool:
    """Whether Cython is here, which only a build without isolation may lack."""
    found = importlib.util.find_spec("Cython") is not None
    if not found:
        print("warning: no Cython, so the modules stay uncompiled", file=sys.stderr)
    return found


class Build(build):
    """`build` outside the source tree."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = _scratch.name


class Wheel(bdist_wheel):
    """`bdist_wheel` that is tagged for any machine if nothing is compiled."""

    def finalize_options(self) -> None:
        if wants_pure():
            self.distribution.ext_modules = None
        super().finalize_options()


class Compile(build_ext):
    """`build_ext` that knows our directives and is never needed."""

    def run(self) -> None:
        if not self.editable_mode and not wants_pure() and has_cython():
            super().run()

    def build_extensions(self) -> None:
        from Cython.Compiler import Options

        Options.buffer_max_dims = DIMENSIONS
        if sys.platform == "linux":  # elsewhere its workers do not see that, all alike
            multiprocessing.set_start_method("fork", force=True)
        from Cython.Build import cythonize

        options = {"build_dir": os.path.join(_scratch.name, "c"), "compiler_directives": DIRECTIVES}
        made = cythonize(self.extensions, nthreads=os.cpu_count(), **options)
        for ext, translated in zip(self.extensions, made, strict=True):
            ext.sources = translated.sources
            ext.extra_compile_args = FLAGS if ext.name in LOOPS else QUICK_FLAGS
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()  # a warning, no error, where the compiler fails: `optional` in pyproject.toml
        self.leave_none_alone()

    def leave_none_alone(self) -> None:
        """Compiled modules call each other without Python between: where one is missing, none is of use."""
        built = [self.get_ext_fullpath(ext.name) for ext in self.extensions]
        found = [path for path in built if os.path.exists(path)]
        if len(found) < len(built):
            for path in found:
                os.remove(path)
            print(f"warning: {len(built) - len(found)} modules could not be compiled, so all stay uncompiled",
                  file=sys.stderr)  # fmt: skip

    def get_source_files(self) -> list[str]:
        """What a source distribution holds: this file and the changes too."""
        return [*super().get_source_files(), ".build/backend.py", "CHANGELOG.md"]
