# SPDX-License-Identifier: Apache-2.0
"""Sphinx settings. `make docs` calls tools/docs, which lays the sources and the rendered pages out in build/docs first."""

project = "cucore"
author = "the cucore authors"
copyright = "the cucore authors, Apache-2.0"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
exclude_patterns = ["render", "_include", "_examples", "reference/rendered.md"]
html_theme = "furo"
html_title = "cucore"
html_static_path = ["_static"]
html_css_files = ["cucore.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#3a6b00", "color-brand-content": "#3a6b00"},
    "dark_css_variables": {"color-brand-primary": "#a5d65a", "color-brand-content": "#a5d65a"},
    "navigation_with_keys": True,
}
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
add_module_names = False
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
toc_object_entries = True
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # signatures are no whole programs
