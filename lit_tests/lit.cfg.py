"""IR in, FileCheck out. `lit lit_tests`; `--param shell` runs every line through the shell instead of in process."""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)
for path in (root, here):
    if path not in sys.path:
        sys.path.insert(0, path)
# Workers are started afresh and have to find the same modules.
os.environ["PYTHONPATH"] = os.pathsep.join((root, here))

from inprocess import InProcess  # noqa: E402

config.name = "fx2hlo"
config.test_source_root = here
config.test_exec_root = os.path.join(root, "build", "lit")
config.suffixes = [".mlir"]
config.test_format = InProcess({"%opt": "compiler.driver:main"})
config.environment["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
config.substitutions.append(("%opt", f"{sys.executable} {root}/tools/compiler-opt"))
