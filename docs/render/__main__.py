# SPDX-License-Identifier: Apache-2.0
"""`python -m render OUTPUT` in docs/: writes the rendered pages of the site, from the package that this Python imports."""

import importlib.util
import sys
from pathlib import Path

from . import cpp_reference, facts_pages, python_reference


def main(folder: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    spec = importlib.util.find_spec("cucore")
    if spec is None or spec.origin is None:
        raise SystemExit("the package is not installed here: run `make build` first")
    package = Path(spec.origin).parents[1]
    folder.mkdir(parents=True, exist_ok=True)
    python_reference.render(package, folder)
    cpp_reference.render(root / "include", folder)
    facts_pages.render(package, root / "api", folder)
    sys.path.insert(0, str(root / "codegen"))
    import promises  # rendered from the tests' own markers

    (folder / "promises.md").write_text(promises.render(promises.collect(root / "tests")[0]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
