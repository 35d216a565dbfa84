// Opened as a file, a page may not read its neighbors: search then lists titles, without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// A page that search found by its text opens at the first word found. Sphinx marks the words after 10 ms.
if (localStorage.getItem("sphinx_highlight_terms") && !location.hash && !document.querySelector("#search-results"))
  _ready(() =>
    setTimeout(() => {
      const marks = [...document.querySelectorAll("article .highlighted")];
      marks.find((mark) => mark.checkVisibility())?.scrollIntoView({ block: "center", behavior: "instant" });
    }, 10),
  );
