"""The example on the front page runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_the_front_page_example_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, env=dict(os.environ, PYTHONWARNINGS="ignore")
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
