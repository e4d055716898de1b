"""Configuration of the documentation: `sphinx-build -W --keep-going docs build/docs`."""

from __future__ import annotations

import logging
import os
import warnings
from importlib.metadata import version as installed_version
from typing import Any

import matplotlib as mpl
from sphinx_gallery.sorting import ExplicitOrder

mpl.use("agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # examples are small, and builds run beside other work
logging.getLogger("matplotlib").setLevel(logging.ERROR)
logging.getLogger("abc_plugins").setLevel(logging.ERROR)  # that kernels are compiled, and where: not for readers
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

project = "abc-plugins"
author = "The abc-plugins developers"
copyright = author
version = release = installed_version("abc-plugins")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3  # pages link to each other's headings
suppress_warnings = ["config.cache"]  # the order of the gallery is an object, which cannot be cached

autosummary_generate = True
numpydoc_show_class_members = False  # the templates of the reference list methods themselves
autodoc_typehints = "none"  # numpydoc sections give the types
autodoc_default_options = {"member-order": "bysource"}

SECTIONS = ("native", "engines", "deployment", "tuning")

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    # programs that need a cluster, a server or arguments stay outside of the gallery
    "ignore_pattern": r"^(?!plot_)",
    "subsection_order": ExplicitOrder([*(f"../examples/{name}" for name in SECTIONS), "*"]),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1,
    "plot_gallery": "True",
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib",  # pictures speak for themselves
    "reference_url": {},
    "matplotlib_animations": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "abc-plugins"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
}
html_sidebars = {"index": [], "changes": [], "api": []}

FILES_AT_THE_TOP = {
    "../SECURITY.md": "security.md",
    "../CHANGELOG.md": "changes.md",
    "../CONTRIBUTING.md": "contributing.md",
}


def link_pages_of_the_site(_app: Any, _name: str, source: list[str]) -> None:
    """Let links to files at the top of the repository lead to the pages of the site that include them."""
    for path, page in FILES_AT_THE_TOP.items():
        source[0] = source[0].replace(f"]({path}", f"]({page}")


def skip_members_of_other_libraries(_app: Any, _what: str, _name: str, member: Any, skip: bool, _options: Any) -> bool:
    """Leave out methods that come from scikit-learn, LightGBM or XGBoost: they are documented there."""
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    home = getattr(function, "__globals__", {}).get("__name__", "abc_plugins")
    return skip or not home.startswith("abc_plugins")


def setup(app: Any) -> None:
    """Register the hooks of this configuration."""
    app.connect("source-read", link_pages_of_the_site)
    app.connect("autodoc-skip-member", skip_members_of_other_libraries)
