// The start page: what the course is, where you are, and every lesson one click away.

import { element, meter, passedOf, prose, tiles } from "./dom.js";

const HOW = [
  "Read a few lines, then write the missing part where a cell says `your code here`.",
  "Run the cell below it with Shift+Enter: it compares your answer with PyTorch and, if they differ, names the mistake.",
  "Stuck? The panel at the side gives hints. Something broken? It resets the exercise and keeps what you wrote.",
];

/** The page. `does` has open(ex), which goes to an exercise, and lesson(path). */
export function startPage(state, does) {
  const places = state.weeks.flatMap((week) => week.lessons);
  const lesson = places.find(({ exercises }) => exercises.some(({ ex }) => ex === state.next));
  const exercise = lesson?.exercises.find(({ ex }) => ex === state.next);
  return element(
    "div",
    { class: "labkit-start" },
    element("h1", {}, "Learn PyTorch by building it"),
    state.note ? element("p", { class: "labkit-panel-note", role: "alert" }, ...prose(state.note)) : null,
    element(
      "div",
      { class: "labkit-start-now" },
      element("p", {}, `${state.passed} of ${state.total} exercises passed`),
      meter(state.passed, state.total, "Exercises passed in the whole course"),
      next(state, lesson, exercise, does),
    ),
    state.passed
      ? null
      : element("ol", { class: "labkit-start-how" }, ...HOW.map((line) => element("li", {}, ...prose(line)))),
    ...state.weeks.map((week) => drawWeek(week, state, does)),
  );
}

function next(state, lesson, exercise, does) {
  if (!exercise) return element("p", {}, "Every exercise is passed.");
  const verb = state.passed || exercise.attempts ? "Continue with" : "Start with";
  return element(
    "button",
    { class: "labkit-button labkit-start-next", type: "button", onclick: () => does.open(exercise.ex) },
    `${verb}: ${exercise.title}`,
    element("small", {}, `${lesson.title}; this exercise takes about ${exercise.minutes} minutes`),
  );
}

function drawWeek(week, state, does) {
  const all = week.lessons.flatMap((lesson) => lesson.exercises);
  return element(
    "section",
    { class: "labkit-start-week", "aria-label": `Week ${week.week}` },
    element(
      "h2",
      {},
      week.title,
      element("span", { class: "labkit-count" }, `${passedOf(all)} of ${all.length}`),
    ),
    element("ul", {}, ...week.lessons.map((lesson) => drawLesson(lesson, state, does))),
  );
}

function drawLesson(lesson, state, does) {
  const click = () => does.lesson(lesson.path);
  return element(
    "li",
    {},
    element(
      "button",
      { class: "labkit-lesson", type: "button", "data-path": lesson.path, onclick: click },
      lesson.title,
    ),
    element("span", { class: "labkit-count" }, `about ${lesson.minutes} min`),
    element("div", { class: "labkit-tiles" }, ...tiles(lesson.exercises, state.next, does.open)),
  );
}
