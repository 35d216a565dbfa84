// Sphinx's search knows pages: a heading counts only if the query is half of it. Here every heading is a place of
// its own, found by its words, or by the index entries that labkit/site/search.py gives it; the closest comes
// first, and pages that only have the words in their text follow.

Documentation.addTranslations({
  locale: "en",
  plural_expr: "n === 1 ? 0 : 1",
  messages: {
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
      "Nothing found. Try one word instead of several, another word for it, or the name of a function or an exercise, such as softmax or w01.strides.",
    "Search finished, found one page matching the search query.": [
      "Found in one place.",
      "Found in ${resultCount} places, the closest first.",
    ],
  },
});

const stemmer = new Stemmer();
const FRONT = "index";

// Stems of what matters in a text. The id of an exercise, such as w01.strides, is one word.
const wordsOf = (text) => {
  const lower = text.toLowerCase().trim();
  if (/^w\d\d\.\w+$/.test(lower)) return [lower];
  return splitQuery(lower.replaceAll("_", " "))
    .filter((word) => !stopwords.has(word))
    .map((word) => stemmer.stemWord(word));
};

// "Exercise 4 · Adam and AdamW (15 minutes)": what it is about.
const subject = (title) =>
  title.replace(/^(Week|Exercise) \d+ · (\d+ )?/, "").replace(/ \(\d+ minutes\)$/, "");

// Every heading, with the phrases that it is found by.
const placesOf = ({ alltitles, indexentries }) => {
  const places = new Map();
  for (const [title, found] of Object.entries(alltitles))
    for (const [file, id] of found)
      places.set(`${file}#${id}`, { file, id, title, phrases: [wordsOf(subject(title))] });
  for (const [entry, found] of Object.entries(indexentries))
    for (const [file, id] of found) places.get(`${file}#${id}`)?.phrases.push(wordsOf(entry));
  return [...places.values()];
};

// 1 for a word of the phrase, a half for the beginning of one.
const fit = (word, phrase) => {
  if (phrase.includes(word)) return 1;
  return word.length > 2 && phrase.some((other) => other.startsWith(word)) ? 0.5 : 0;
};

// The share of words that query and phrase have in common: 1 if they are the same, 0 if they share none.
const closeness = (asked, phrase) => {
  const fits = asked.map((word) => fit(word, phrase)).filter((one) => one > 0);
  const either = asked.length + phrase.length - fits.length;
  return fits.reduce((sum, one) => sum + one, 0) / Math.max(either, 1);
};

const byHeading = (asked, index) =>
  placesOf(index)
    .map((place) => {
      const page = index.titles[place.file];
      const around = [...place.phrases.flat(), ...wordsOf(subject(page))];
      const whole = asked.every((word) => fit(word, around));
      const score = whole ? Math.max(...place.phrases.map((phrase) => closeness(asked, phrase))) : 0;
      return { ...place, page, score };
    })
    .filter((place) => place.score > 0)
    .sort(
      (a, b) =>
        b.score - a.score || a.file - b.file || a.title.localeCompare(b.title, "en", { numeric: true }),
    )
    .map(({ file, id, title, page, score }) => [
      index.docnames[file],
      id ? `${page} > ${title.replace(/ \(\d+ minutes\)$/, "")}` : title,
      id ? `#${id}` : "",
      null,
      score,
      index.filenames[file],
      SearchResultKind.title,
    ]);

// Pages of which no heading was found. Parts of words, such as "rope" in "property", are told by their low score
// and count only where nothing else is found.
Scorer.partialTitle = Scorer.partialTerm;
const byText = (searchTerms, excludedTerms, headings) => {
  const listed = new Set(headings.map(([page]) => page));
  const least = headings.length ? Scorer.term : 0;
  return Search.performTermsSearch(searchTerms, excludedTerms)
    .filter(([page, , , , score]) => !listed.has(page) && score >= least)
    .sort((a, b) => b[4] - a[4] || (a[0] < b[0] ? -1 : 1));
};

// Best last: that is the order in which searchtools.js takes results.
Search._performSearch = (query, searchTerms, excludedTerms) => {
  const asked = wordsOf(query);
  const headings = asked.length ? byHeading(asked, Search._index) : [];
  const results = [...headings, ...byText(searchTerms, excludedTerms, headings)];
  const isFront = ([page]) => page === FRONT;
  return [...results.filter((one) => !isFront(one)), ...results.filter(isFront)].reverse();
};

// Who leaves for another page than those found does not want its words marked.
document.addEventListener("click", (event) => {
  if (!event.target.closest("#search-results")) localStorage.removeItem("sphinx_highlight_terms");
});
