// Elements without a framework. Text is always set as text, so nothing a learner wrote can become markup.

/** `element("button", {class: "x", onclick}, "words", child)`; attributes that are null or false are left out. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// As in labkit/grade/verdict.py: code between backticks, stress between stars.
const CODE_OR_STRESS = /`([^`]+)`|(?<![^\s(])\*([^\s*`](?:[^*`]*[^\s*`])?)\*(?![^\s.,;:?)])/g;

/** Words in which what stands between backticks is code, between stars stressed, as the grader writes them. */
export function prose(text) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(CODE_OR_STRESS)) {
    const [whole, code, stressed] = match;
    nodes.push(text.slice(end, match.index), code ? element("code", {}, code) : element("em", {}, stressed));
    end = match.index + whole.length;
  }
  return [...nodes, text.slice(end)];
}

/** Signs and words for the four states of an exercise: never told by color alone. */
export const STATES = {
  passed: { sign: "✓", words: "passed" },
  failing: { sign: "!", words: "passed before, not anymore" },
  tried: { sign: "~", words: "not yet" },
  open: { sign: "", words: "not started" },
};

/** A bar that says how much is done; the first step of many shows too. */
export function meter(done, of, label) {
  const width = done ? `max(4px, ${(100 * done) / of}%)` : "0";
  return element(
    "div",
    {
      class: "labkit-meter",
      role: "progressbar",
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": of,
      "aria-valuenow": done,
      "aria-valuetext": `${done} of ${of}`,
    },
    element("div", { style: `width: ${width}` }),
  );
}

/** One square per exercise; a click opens it. */
export function tiles(exercises, next, open) {
  return exercises.map((exercise) =>
    element(
      "button",
      {
        class: "labkit-tile",
        type: "button",
        "data-tile": exercise.ex,
        "data-state": exercise.state,
        "data-next": exercise.ex === next ? "true" : null,
        title: `${exercise.title} (${exercise.ex}): ${STATES[exercise.state].words}`,
        "aria-label": `${exercise.title}, ${exercise.ex}, ${STATES[exercise.state].words}`,
        onclick: () => open(exercise.ex),
      },
      STATES[exercise.state].sign,
    ),
  );
}

/** How many were ever passed, as `make progress` counts. */
export function passedOf(exercises) {
  return exercises.filter(({ state }) => state === "passed" || state === "failing").length;
}
