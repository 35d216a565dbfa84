"""What Sphinx is told: notebooks as they are, formulas as MathML, nothing from the network."""

project = "labkit"
html_title = "labkit: learn PyTorch by building it"
copyright = "the labkit authors, MIT license"
extensions = ["myst_nb", "labkit.site.mathml"]
html_theme = "furo"
pygments_style = "tango"
pygments_dark_style = "github-dark"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_show_sourcelink = False

nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
