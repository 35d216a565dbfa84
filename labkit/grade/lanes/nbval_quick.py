"""In front of nbval (`-p …nbval_quick`): import nbformat in a quarter of a second instead of two.

nbformat's validator imports `rfc3987_syntax`, which builds dozens of parsers for address formats. jsonschema
takes None for "not installed"; no notebook schema uses those formats.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
