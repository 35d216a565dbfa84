// Opened as a file, a page may not read its neighbors: search then lists titles, without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
