"""What Sphinx is told: notebooks as they are, formulas as MathML, nothing from the network."""

project = "labkit"
html_title = "labkit: learn PyTorch by building it"
copyright = "the labkit authors, MIT license"
extensions = [
    "myst_nb",
    "labkit.site.mathml",
    "labkit.site.commands",
    "labkit.site.pictures",
    "labkit.site.search",
    "sphinx.ext.githubpages",
]
html_theme = "furo"
pygments_style = "xcode"
pygments_dark_style = "github-dark"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["files.js"]
html_favicon = "static/icon.svg"
html_extra_path = ["404.html"]
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_show_sourcelink = False

highlight_language = "text"  # of blocks in prose that name no language: worked examples
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
