# SPDX-License-Identifier: Apache-2.0
"""Writes the dist-info metadata that `cmake --install` does not create, so that version and entry points are found."""

import sys
from pathlib import Path

import tomllib


def main(site: Path) -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    folder = site / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (folder / "INSTALLER").write_text("cmake\n")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) for group, rows in groups.items()]
    (folder / "entry_points.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
