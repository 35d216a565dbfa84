// Opened as a file, a page may not read its neighbors: search then lists titles, without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// The contents at the side begin where the reader is. Only their own box scrolls, the page stays.
const here = document.querySelector(".sidebar-tree .current-page");
if (here) {
  const box = here.closest(".sidebar-scroll");
  const away = here.getBoundingClientRect().top - box.getBoundingClientRect().top;
  box.scrollTo({ top: box.scrollTop + away - box.clientHeight / 2, behavior: "instant" });
}

// A page that search found by its text opens at the first word found. Sphinx marks the words after 10 ms.
if (localStorage.getItem("sphinx_highlight_terms") && !location.hash && !document.querySelector("#search-results"))
  _ready(() =>
    setTimeout(() => {
      const marks = [...document.querySelectorAll("article .highlighted")];
      marks.find((mark) => mark.checkVisibility())?.scrollIntoView({ block: "center", behavior: "instant" });
    }, 10),
  );

// What scrolls sideways can be reached by keyboard: some browsers see to it themselves, others do not.
const reachable = () => {
  for (const box of document.querySelectorAll(".cell_output .text_html"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
};
reachable();
document.addEventListener("toggle", reachable, true); // what was folded has a width only now
