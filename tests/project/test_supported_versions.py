"""Other versions of the libraries whose private parts are used are refused, with the reason."""

import pytest


@pytest.mark.parametrize(
    ("module", "library", "supported", "refused"),
    [
        ("abc_plugins.lgbm.internals", "lightgbm", ["4.6.0", "4.7.0"], ["4.5.1", "4.8.0", "5.0.0"]),
        ("abc_plugins.core.runtime.numba_internals", "numba", ["0.61.2", "0.68.1"], ["0.60.0", "0.69.0rc1"]),
        ("abc_plugins.xgb.internals", "xgboost", ["3.0.5", "3.2.0"], ["2.1.4", "3.3.0", "4.0.0"]),
    ],
)
def test_versions(module, library, supported, refused):
    pytest.importorskip(library)
    check_version = pytest.importorskip(module).check_version
    for version in supported:
        check_version(version)
    for version in refused:
        with pytest.raises(ImportError, match=f"(?i)abc_plugins supports {library} .*; installed is {version}"):
            check_version(version)
    with pytest.raises(ImportError, match=r"without dict\.no_such_part"):
        check_version(names={dict: ("no_such_part",)})
