# SPDX-License-Identifier: Apache-2.0
"""The rendered pages contain all facts."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs"))

from render import cpp_reference  # noqa: E402


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-m", "render", str(folder)]
    done = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    "module", ["cuda.core", "cuda.core.graph", "cuda.core.texture", "cuda.core.utils", "cuda.pathfinder"]
)
def test_every_public_name_has_an_entry_with_a_description(pages: Path, module: str) -> None:
    page = (pages / (module.replace(".", "_") + ".rst")).read_text()
    for name in importlib.import_module(module).__all__:
        if not name.startswith("__"):
            assert re.search(rf"^\.\. py:(class|function|data):: {name}\b", page, re.M), name


def test_methods_of_extension_types_have_signatures_and_descriptions(pages: Path) -> None:
    page = (pages / "cuda_core.rst").read_text()
    assert re.search(r"py:method:: create_stream\(obj: .*options: .*\) -> Stream\n.*\n\n +Make a stream", page)


def test_every_function_of_the_bindings_is_in_the_index_and_the_search(pages: Path) -> None:
    for api, names in {
        "driver": ["cuLaunchKernel", "cuMemAllocAsync"], "runtime": ["cudaMalloc", "cudaMemcpy2D"], "nvrtc": ["nvrtcCompileProgram"]
    }.items():  # fmt: skip
        page = (pages / f"cuda_bindings_{api}.rst").read_text()
        for name in names:
            assert re.search(rf"^\.\. py:function:: {name}\(", page, re.M), name  # Sphinx indexes these
            assert re.search(rf"^   C: ``\w+ {name}\(", page, re.M), f"the C declaration of {name}"
        functions = json.loads((ROOT / "api" / f"{api}.json").read_text())["functions"]
        listed = set(re.findall(r"^\.\. py:function:: (\w+)\(", page, re.M))
        module = importlib.import_module(f"cuda.bindings.{api}")
        there = {name for name in functions if hasattr(module, name)}
        assert there and there <= listed, sorted(there - listed)[:5]


def test_c_names_of_nvml_are_in_the_index_and_the_search(pages: Path) -> None:
    page = (pages / "cuda_bindings_nvml.rst").read_text()
    assert ".. index:: single: nvmlDeviceGetCount" in page and "nvmlReturn_t nvmlDeviceGetCount" in page


def test_the_reference_has_no_signatures_of_nanobind(pages: Path) -> None:
    for path in pages.glob("cuda_core*.rst"):
        raw = re.findall(r"^ +(?:\d+\. )?`*\w+\(self\b.*$", path.read_text(), re.M)
        assert raw == [], f"{path.name}: {raw[:3]}"


def test_every_class_of_the_headers_is_on_a_page(pages: Path) -> None:
    for header in (ROOT / "include" / "cucore").glob("*.hpp"):
        if header.stem in ("cucore", "export"):
            continue
        page = (pages / "cpp" / f"{header.stem}.rst").read_text()
        for name in re.findall(r"^(?:class|struct) CUCORE_EXPORT (\w+)", header.read_text(), re.M):
            assert re.search(rf"^(?:\w+::)*{name}$", page, re.M), name


@pytest.mark.parametrize("path", sorted((ROOT / "include/cucore").glob("*.hpp")), ids=lambda path: path.name)
def test_every_header_says_what_it_is_about(path: Path) -> None:
    about, name, _ = cpp_reference.header(path)
    assert about and name == path.name


def test_names_in_an_inner_namespace_are_qualified() -> None:
    _, _, items = cpp_reference.header(ROOT / "include/cucore/system_device.hpp")
    assert "system::Device" in {item.name for item in items}


def test_comments_are_attached_to_their_declarations() -> None:
    text = """// cucore/thing.hpp: a thing.
namespace cucore {
namespace detail { struct Hidden { int x; }; }
/// Holds a value.
template <class T>
class CUCORE_EXPORT Thing {
 public:
  explicit Thing(T value) : value_{value}, more_{1, 2} {}
  Thing(const Thing&) = delete;
  [[nodiscard]] T get() const noexcept { return value_; }  ///< the value
  /// Replaces it;
  /// never throws.
  void set(T value = T{});
 private:
  T value_;
};
enum class Colour { red, green };
}
"""
    thing, colour = cpp_reference.Parser(text).items()
    assert (thing.name, thing.doc) == ("Thing", "Holds a value.")
    assert [(m.text, m.doc, m.note) for m in thing.members] == [
        ("explicit Thing(T value);", "", ""),
        ("T get() const noexcept;", "", "the value"),
        ("void set(T value = T{});", "Replaces it; never throws.", ""),
    ]
    assert colour.text == "enum class Colour { red, green };"


def test_every_deviation_is_on_the_page(pages: Path) -> None:
    page = (pages / "deviations.rst").read_text()
    facts = json.loads((ROOT / "api" / "deviations.json").read_text())
    names = [name for rows in facts.values() for name in rows]
    assert names and all(f"``{name}``" in page for name in names)


@pytest.mark.cpu_only
def test_coverage_page_says_which_forms_only_a_reference_confirms(pages: Path) -> None:
    page = (pages / "coverage.rst").read_text().partition("Confirmed by a GPU, or by a reference only")[2]
    assert "``clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128``" in page
    assert "``add.f32x2``" in page and "``cvt.rs.f16x2.f32``" in page  # of 10.0
    assert "``add.u8x4``" in page  # of 12.0
    assert "``wgmma" not in page and "``popc" not in page  # of 9.0 and before


def test_coverage_page_equals_the_coverage_command(pages: Path) -> None:
    import cucore
    from cucore.coverage import facts

    if not (Path(next(iter(cucore.__path__))) / "coverage.json").exists():
        pytest.skip("this build has no CPU device")
    page = (pages / "coverage.rst").read_text()
    driver = facts()["driver"]
    assert f"- {len(driver['implemented'])}\n" in page
    assert all(f"``{name}``" in page for name in driver["missing"])
