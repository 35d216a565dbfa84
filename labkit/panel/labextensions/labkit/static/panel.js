// What the panel looks like. It draws what it is given and calls back; it knows nothing of notebooks or servers.

import { STATES, element, meter, passedOf, prose, tiles } from "./dom.js";

const HELP = "Grades what you see, saved or not, from a fresh start. Needs no kernel.";

/** `does` has one function per button: check, stop, hint, reset, next, select(ex), open(ex), lesson(path), start. */
export class PanelView {
  constructor(does) {
    this.does = does;
    this.rows = new Map(); // exercise -> its row
    this.node = element("div", { class: "labkit-panel", role: "region", "aria-label": "labkit" });
    this.head = element("header", { class: "labkit-panel-head" });
    this.note = element("p", { class: "labkit-panel-note", role: "alert" });
    this.title = element("h3", { class: "labkit-panel-title" });
    this.check = this.#button("labkit-panel-check", "Check this notebook", (event) => this.#checkOrStop(event));
    this.check.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.repeat) event.preventDefault(); // held down, it would stop what it began
    });
    this.help = element("p", { class: "labkit-panel-help", id: "labkit-panel-help" }, HELP);
    this.check.setAttribute("aria-describedby", "labkit-panel-help");
    this.elsewhere = element("p", { class: "labkit-panel-elsewhere" });
    this.progress = element("progress", {
      class: "labkit-panel-progress",
      "aria-label": "Progress of the check",
    });
    this.status = element("div", { class: "labkit-panel-status", role: "status", "aria-live": "polite" });
    this.list = element("ol", { class: "labkit-exercises", "aria-label": "Exercises of this notebook" });
    this.hint = this.#button("labkit-panel-hint", "Hint", does.hint);
    this.reset = this.#button("labkit-panel-reset", "Reset exercise", does.reset);
    this.next = this.#button("labkit-panel-next", "Next exercise", does.next);
    this.selected = element("p", { class: "labkit-panel-selected" });
    this.weeks = element("section", { class: "labkit-panel-weeks", "aria-label": "The course" });
    this.node.append(
      this.head,
      this.note,
      element(
        "section",
        { class: "labkit-panel-notebook", "aria-label": "This notebook" },
        ...[this.title, this.check, this.help, this.elsewhere, this.progress, this.status, this.selected],
        element("div", { class: "labkit-panel-buttons" }, this.hint, this.reset, this.next),
        this.list,
      ),
      this.weeks,
    );
    this.drawRunning(null);
    this.note.hidden = true;
  }

  /** The course: progress, weeks, lessons. `path` is the notebook in front. */
  drawCourse(state, path) {
    this.head.replaceChildren(
      element("h2", {}, "labkit"),
      this.#button("labkit-panel-start", "Start page", this.does.start),
      meter(state.passed, state.total, "Exercises passed in the whole course"),
      element("span", { class: "labkit-count" }, `${state.passed} of ${state.total} exercises passed`),
    );
    const open = new Set([...this.weeks.querySelectorAll("details[open]")].map((week) => week.dataset.week));
    const focused =
      document.activeElement?.closest?.(".labkit-panel-weeks") && focusKey(document.activeElement);
    const first = !this.weeks.childElementCount;
    this.weeks.replaceChildren(
      element("h3", {}, "The course"),
      ...state.weeks.map((week) => this.#week(week, state, path)),
    );
    for (const week of this.weeks.querySelectorAll("details")) {
      if (!first)
        week.open = open.has(week.dataset.week) || week.contains(this.weeks.querySelector("[aria-current]"));
    }
    if (focused) this.weeks.querySelector(focused)?.focus();
  }

  #week(week, state, path) {
    const all = week.lessons.flatMap((lesson) => lesson.exercises);
    const has = (test) => week.lessons.some(test);
    const open = has(
      (lesson) => lesson.path === path || lesson.exercises.some(({ ex }) => ex === state.next),
    );
    return element(
      "details",
      { class: "labkit-week", "data-week": week.week, open: open ? "" : null },
      element(
        "summary",
        {},
        element("span", { class: "labkit-week-name" }, week.title),
        element("span", { class: "labkit-count" }, `${passedOf(all)} of ${all.length}`),
      ),
      ...week.lessons.map((lesson) =>
        element(
          "div",
          { class: "labkit-week-lesson" },
          element(
            "button",
            {
              class: "labkit-lesson",
              type: "button",
              "data-path": lesson.path,
              "aria-current": lesson.path === path ? "page" : null,
              onclick: () => this.does.lesson(lesson.path),
            },
            lesson.title,
          ),
          element("div", { class: "labkit-tiles" }, ...tiles(lesson.exercises, state.next, this.does.open)),
        ),
      ),
    );
  }

  /** The notebook in front: its title and exercises, or what to do if there is none. */
  drawNotebook(title, exercises) {
    this.title.textContent = title ?? "No lesson is open";
    for (const node of [this.check, this.help]) node.hidden = title === null;
    for (const node of [this.list, this.selected, this.hint, this.reset]) node.hidden = !exercises.length;
    const names = exercises.map(({ ex }) => ex);
    if (names.join() !== [...this.rows.keys()].join()) {
      this.rows = new Map(exercises.map((exercise) => [exercise.ex, this.#row(exercise)]));
      this.list.replaceChildren(...this.rows.values());
    }
  }

  #row(exercise) {
    const name = element(
      "button",
      { class: "labkit-exercise-name", type: "button", onclick: () => this.does.select(exercise.ex) },
      element("span", { class: "labkit-sign", "aria-hidden": "true" }),
      element("span", { class: "labkit-exercise-title" }, exercise.title),
      element(
        "span",
        { class: "labkit-exercise-more" },
        element("code", {}, exercise.ex),
        " ",
        element("span", { class: "labkit-exercise-word" }),
      ),
    );
    const said = element("div", { class: "labkit-exercise-said" });
    return element("li", { class: "labkit-exercise", "data-ex": exercise.ex }, name, said);
  }

  /** One exercise of this notebook: its state, the last verdict on it, the hints given. */
  drawExercise(ex, { state, verdict, stale, hints, more, selected }) {
    const row = this.rows.get(ex);
    if (!row) return;
    row.dataset.state = state;
    const arrived = selected && !row.hasAttribute("data-selected");
    row.toggleAttribute("data-selected", selected);
    row.toggleAttribute("data-stale", stale);
    const name = row.querySelector(".labkit-exercise-name");
    if (selected) name.setAttribute("aria-current", "true");
    else name.removeAttribute("aria-current");
    const words = stale ? "changed since" : STATES[state].words;
    const title = row.querySelector(".labkit-exercise-title").textContent;
    name.setAttribute("aria-label", `${title}, ${ex}, ${words}`);
    row.querySelector(".labkit-sign").textContent = STATES[state].sign;
    row.querySelector(".labkit-exercise-word").textContent = words;
    const said = row.querySelector(".labkit-exercise-said");
    const show = verdict && verdict.status !== "not started" && (!verdict.passed || selected);
    const parts = [];
    if (verdict && show) {
      const all = [sentence(verdict.headline), ...verdict.lines];
      parts.push(...all.map((line) => element("p", {}, ...prose(line))));
    }
    if (selected && hints.length) {
      const items = hints.map((text) => element("li", {}, ...prose(text)));
      parts.push(element("div", { class: "labkit-hints" }, "Hints", element("ol", {}, ...items)));
      if (more) parts.push(element("p", {}, ...prose(more)));
    }
    said.replaceChildren(...parts);
    if (arrived) row.scrollIntoView({ block: "nearest" });
    if (selected) {
      this.selected.replaceChildren(
        "You are at ",
        element("strong", {}, title),
        " ",
        element("code", {}, ex),
      );
    }
  }

  /** While a check runs the button stops it; nothing else has to wait. `check` is null, or has the name of the
   *  notebook, whether that is `here`, in front, and what is `done` `of` all once the server has said so. */
  drawRunning(check) {
    this.running = check !== null;
    const elsewhere = check && !check.here;
    const stop = elsewhere ? `Stop the check of ${check.name}` : "Stop the check";
    const words = check ? stop : "Check this notebook";
    if (this.check.textContent !== words) this.check.textContent = words;
    this.check.classList.toggle("labkit-stop", this.running);
    this.say(this.elsewhere, elsewhere ? `Checking ${check.name}.` : "");
    this.progress.hidden = !check;
    if (check?.of) Object.assign(this.progress, { max: check.of, value: check.done });
    else this.progress.removeAttribute("value");
  }

  /** Words in a place that screen readers follow. Nothing to say hides a note; the status stays, for what comes
   *  out of hiding together with its words is not read aloud. */
  say(place, words) {
    if (place !== this.status) place.hidden = !words;
    const said = element("span", {}, ...prose(words ?? ""));
    if (place.textContent !== said.textContent) place.replaceChildren(...said.childNodes);
  }

  /** The second click of two is not meant to stop what the first began. */
  #checkOrStop(event) {
    if (!this.running) this.does.check();
    else if (event.detail < 2) this.does.stop();
  }

  #button(name, words, onclick) {
    return element(
      "button",
      { class: `labkit-button ${name}`, type: "button", onclick: (event) => onclick(event) },
      words,
    );
  }
}

/** In the box of a check the headline follows a name; here it begins a line. */
function sentence(line) {
  return line.charAt(0).toUpperCase() + line.slice(1);
}

/** How to find an element of the course again after it was drawn anew. */
function focusKey(node) {
  if (node.dataset.tile) return `[data-tile="${node.dataset.tile}"]`;
  if (node.dataset.path) return `[data-path="${node.dataset.path}"]`;
  const week = node.closest("[data-week]");
  return week ? `[data-week="${week.dataset.week}"] summary` : null;
}
