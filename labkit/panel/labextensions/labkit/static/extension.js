// The plugin: brings together JupyterLab, the server and the two views (panel, start page).

import {
  answersOf,
  comeBack,
  contentOf,
  exerciseAfter,
  exerciseAt,
  exercisesOf,
  goTo,
  ignoreWhatTheKernelAdds,
  isWaiting,
  putBack,
  withoutOutputs,
} from "./notebook.js";
import { PanelView } from "./panel.js";
import { Server } from "./server.js";
import { startPage } from "./start.js";

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><path class="jp-icon3"
  fill="#616161" d="M9 2v2h1v5.2L4.6 18.4A2.4 2.4 0 0 0 6.7 22h10.6a2.4 2.4 0 0 0 2.1-3.6L14 9.2V4h1V2H9zm3
  2v5.7l2.6 4.3H9.4L12 9.7V4z"/></svg>`;
const DIED =
  "The kernel died and was started again. What you typed is all here; what the cells had computed is gone. " +
  "Run > Run All Above Selected Cell brings it back, up to the first exercise that is not done.";
const LOST = "Error displaying widget: model not found"; // the words of ipywidgets
const FOUND_AGAIN = "The controls went with the kernel they belonged to. Run this cell to have them back.";
const NOT_SAVED =
  "The notebook could not be saved; what you typed is still here. Is the disk full, or the folder read-only? " +
  "File > Download keeps a copy elsewhere.";
const TOO_EARLY =
  "The check ran before cells it needs: the first code cell of the lesson, your answer, or another one above. " +
  "Run those, then the check again.";
const MINUTE = 60_000;
const QUIET = 300; // milliseconds without an event before the course is drawn again

/** `use(name)` gives a module of JupyterLab; the plugin is made of those, so it shares their classes. */
export async function makePlugin(use) {
  const [application, apputils, notebook, services, coreutils, widgets, ui] = await Promise.all(
    [
      ...["@jupyterlab/application", "@jupyterlab/apputils", "@jupyterlab/notebook", "@jupyterlab/services"],
      ...["@jupyterlab/coreutils", "@lumino/widgets", "@jupyterlab/ui-components"],
    ].map(use),
  );
  const jupyter = { ...apputils, ...notebook, ...widgets };
  const icon = new ui.LabIcon({ name: "labkit:flask", svgstr: ICON });
  return {
    id: "labkit:panel",
    description: "Progress, checks, hints and resets beside the notebook.",
    autoStart: true,
    requires: [notebook.INotebookTracker, application.ILabShell],
    optional: [application.ILayoutRestorer, apputils.ICommandPalette],
    activate: (app, tracker, shell, restorer, palette) => {
      const lab = new Lab(app, tracker, new Server(services, coreutils), jupyter);
      lab.addTo(shell, restorer, palette, icon);
    },
  };
}

/** What is going on: the state of the course, the notebook in front, and the checks made of it. */
class Lab {
  constructor(app, tracker, server, jupyter) {
    Object.assign(this, { app, tracker, server, jupyter });
    this.state = null; // as the server sent it last
    this.results = new WeakMap(); // notebook -> {verdicts, answers, words, selected}
    this.hints = {}; // exercise -> its hints as given last, and what is said after them
    this.running = null; // {panel, name, abort, done, of} of the check that runs
    this.trouble = null; // {path, words}: the lesson that could not be opened, and why
    const name = (method) => (argument) => void this[method](argument);
    this.does = Object.fromEntries(
      ["check", "stop", "hint", "reset", "next", "select", "open", "lesson", "start"].map((key) => [
        key,
        name(key),
      ]),
    );
    this.view = new PanelView(this.does);
  }

  // in JupyterLab

  addTo(shell, restorer, palette, icon) {
    const { Widget } = this.jupyter;
    this.shell = shell;
    this.icon = icon;
    this.widget = new Widget({ node: this.view.node });
    this.widget.id = "labkit-panel";
    this.widget.title.icon = icon;
    this.widget.title.caption = "labkit: progress, checks, hints";
    shell.add(this.widget, "left", { rank: 10 });
    restorer?.add(this.widget, "labkit-panel");
    this.#addCommands(palette);
    this.starts = new this.jupyter.WidgetTracker({ namespace: "labkit-start" });
    void restorer?.restore(this.starts, { command: "labkit:start", name: () => "start" });
    this.#listen();
    this.view.drawNotebook(null, []);
    void this.refresh();
    // A first visit gets the start page and the panel; later visits get the layout they were left with.
    void shell.restored.then((saved) => {
      if (!saved.fresh) return;
      setTimeout(() => shell.activateById(this.widget.id)); // after the file browser, which asks for the same place
      if (!this.tracker.size) this.start();
    });
  }

  #addCommands(palette) {
    const always = () => true;
    const inLesson = () => this.#lesson() !== null;
    const commands = {
      "labkit:start": ["Open the Start Page", always, () => this.start()],
      "labkit:panel": ["Show the labkit Panel", always, () => this.shell.activateById(this.widget.id)],
      "labkit:check": ["Check This Notebook", inLesson, () => this.check()],
      "labkit:hint": ["Give a Hint", inLesson, () => this.hint()],
      "labkit:reset": ["Reset the Exercise", inLesson, () => this.reset()],
      "labkit:next": ["Go to the Next Exercise", always, () => this.next()],
    };
    for (const [id, [label, isEnabled, execute]] of Object.entries(commands)) {
      this.app.commands.addCommand(id, { label, caption: label, isEnabled, execute });
      palette?.addItem({ command: id, category: "labkit" });
    }
  }

  #listen() {
    const { NotebookActions } = this.jupyter;
    const soon = later(() => this.refresh());
    const changed = later(() => this.drawNotebook());
    this.tracker.currentChanged.connect(() => this.draw());
    this.tracker.activeCellChanged.connect(() => this.#follow());
    const opened = () => {
      this.draw();
      this.#tellOpen();
    };
    this.tracker.widgetAdded.connect((_, panel) => {
      void panel.context.ready.then(() => {
        ignoreWhatTheKernelAdds(panel.content.model);
        panel.content.model.contentChanged.connect(changed);
        explainLostControls(panel.content.node);
        if (this.trouble?.path === this.#path(panel)) this.#tellTrouble(null);
        opened();
      });
      if (!panel.context.isReady) void this.#closeIfDamaged(panel);
      panel.context.pathChanged.connect(opened);
      panel.sessionContext.statusChanged.connect((_, status) => {
        if (status === "autorestarting") this.#say(panel, DIED);
      });
      panel.context.saveState.connect((_, state) => {
        if (state === "failed") this.#say(panel, NOT_SAVED);
        else if (state.startsWith("completed") && this.#result(panel).words === NOT_SAVED) this.#say(panel, "");
      });
      panel.disposed.connect(() => setTimeout(opened));
    });
    setInterval(() => this.#tellOpen(), MINUTE);
    window.addEventListener("pagehide", () => this.server.opened([]));
    NotebookActions.executed.connect((_, { notebook, cell, success, error }) => {
      if (!success) comeBack(notebook, cell);
      const panel = this.tracker.find((one) => one.content === notebook);
      if (panel) this.#ran(panel, cell, success, error?.errorName);
      soon();
    });
    window.addEventListener("focus", soon); // or `make check` in a terminal
  }

  /** A cell was run: what a check says is newer than the panel's verdict, and a failure is to be mended first. */
  #ran(panel, cell, success, errorName) {
    const result = this.#result(panel);
    const { ex, role } = cell.model.sharedModel.getMetadata("labkit") ?? {};
    if (role === "check") {
      delete result.verdicts[ex];
      if (errorName === "NameError") result.words = TOO_EARLY;
      else if (result.words === TOO_EARLY || (success && result.words === DIED)) result.words = "";
    }
    result.selected = exerciseAfter(panel, cell, success) ?? result.selected;
    this.drawNotebook();
  }

  /** `make update` must not write to a notebook that somebody has open, even without a kernel. */
  #tellOpen() {
    const paths = [];
    this.tracker.forEach((panel) => paths.push(this.#path(panel)));
    this.server.opened(paths);
  }

  // what is shown

  async refresh() {
    try {
      this.state = await this.server.state();
      this.#note(this.state.note);
    } catch (error) {
      this.#note(error.message);
    }
    this.draw();
  }

  #note(words) {
    this.view.say(this.view.note, [this.trouble?.words, words].filter(Boolean).join(" "));
  }

  draw() {
    if (!this.state) return;
    const panel = this.#lesson();
    const path = panel ? this.#path(panel) : null;
    const now = JSON.stringify([this.state, path]);
    if (now !== this.drawn) {
      this.drawn = now; // what did not change stays as it is, with its focus and its place
      this.view.drawCourse(this.state, path);
      if (this.page && !this.page.isDisposed) this.#drawStart();
    }
    this.drawNotebook();
  }

  drawNotebook() {
    if (!this.state) return;
    const panel = this.#lesson();
    const exercises = panel
      ? exercisesOf(panel)
          .map((ex) => this.#exercise(ex))
          .filter(Boolean)
      : [];
    this.view.drawNotebook(panel ? this.#title(panel) : null, exercises);
    this.#drawRunning();
    const result = panel && this.#result(panel);
    this.view.say(this.view.status, panel ? result.words : "Open one below, or from the start page.");
    if (!panel) return;
    const answers = answersOf(panel);
    for (const ex of exercisesOf(panel)) {
      const known = this.#exercise(ex);
      const recorded = known?.hints ?? []; // another window, or `make hint`, may have given more
      const given = this.hints[ex]?.hints.length >= recorded.length ? this.hints[ex] : null;
      const verdict = result.verdicts[ex] ?? null;
      this.view.drawExercise(ex, {
        state: verdict?.state ?? known?.state ?? "open",
        verdict,
        stale: verdict !== null && answers[ex] !== result.answers[ex],
        ...(given ?? { hints: recorded, more: null }),
        selected: ex === result.selected,
      });
    }
  }

  #drawRunning() {
    const { panel, ...check } = this.running ?? {};
    this.view.drawRunning(panel ? { ...check, here: panel === this.#lesson() } : null);
  }

  #follow() {
    const panel = this.#lesson();
    if (!panel || isWaiting(panel.content)) return;
    this.#result(panel).selected = exerciseAt(panel);
    this.drawNotebook();
  }

  // what the buttons do

  async check() {
    const panel = this.#lesson();
    if (!panel || this.running) return;
    const result = this.#result(panel);
    const abort = new AbortController();
    this.running = { panel, name: panel.title.label, abort };
    result.answers = answersOf(panel);
    this.#drawRunning();
    this.#say(panel, "Checking. The first check after the start waits until torch is imported.");
    try {
      const tell = (line) => this.#hear(panel, line);
      const modified = panel.context.contentsModel?.last_modified;
      const content = withoutOutputs(contentOf(panel));
      await this.server.check(this.#path(panel), content, modified, tell, abort.signal);
    } catch (error) {
      this.#say(panel, abort.signal.aborted ? "Stopped. Nothing was recorded." : error.message);
    }
    this.running = null;
    this.#drawRunning();
    await this.refresh();
  }

  #hear(panel, line) {
    const result = this.#result(panel);
    if (line.kind === "start") {
      result.verdicts = {};
      result.note = line.note;
      this.#say(panel, `Checking ${line.exercises.length} exercises.`);
    } else if (line.kind === "step") {
      Object.assign(this.running, { done: line.done, of: line.of });
      this.#drawRunning();
    } else if (line.kind === "verdict") {
      result.verdicts[line.ex] = { ...line, passed: line.state === "passed" };
      this.drawNotebook();
    } else if (line.kind === "end") {
      this.#say(panel, [line.summary, `${line.seconds} s.`, result.note].filter(Boolean).join(" "));
    } else {
      this.#say(panel, line.message ?? "Stopped. Nothing was recorded.");
    }
  }

  stop() {
    this.running?.abort.abort();
  }

  async hint() {
    const panel = this.#lesson();
    const ex = panel && this.#result(panel).selected;
    if (!ex) return;
    try {
      const given = await this.server.hint(ex);
      this.hints[ex] = { hints: given.hints, more: given.more };
      const left = given.left ? `${given.left} more.` : "These were all hints.";
      this.#say(panel, `Hint ${given.hints.length} for ${ex} is below its name. ${left}`);
    } catch (error) {
      this.#say(panel, error.message);
    }
    await this.refresh();
  }

  async reset() {
    const { showDialog, Dialog } = this.jupyter;
    const panel = this.#lesson();
    const ex = panel && this.#result(panel).selected;
    if (!ex) return;
    const { button } = await showDialog({
      title: `Reset ${ex}?`,
      body: "Its cell gets the text it started with. The notebook as it is now is kept in backups/ first.",
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: "Reset" })],
    });
    if (!button.accept) return;
    try {
      const { backup, cells } = await this.server.reset(this.#path(panel), contentOf(panel), ex);
      const undo = putBack(panel, ex, cells) ? "Undo works too." : "Edit > Undo Cell Operation works too.";
      delete this.#result(panel).verdicts[ex];
      await this.#goTo(panel, ex);
      this.#say(panel, `${ex} is back at its start, not saved yet. As it was: \`${backup}\`. ${undo}`);
    } catch (error) {
      this.#say(panel, error.message);
    }
    await this.refresh();
  }

  /** The next exercise that is not passed, after the one the cursor is at; from the end on to the beginning. */
  async next() {
    const all = this.#lessons().flatMap((lesson) => lesson.exercises);
    const front = this.#lesson();
    const at = front ? all.findIndex(({ ex }) => ex === this.#result(front).selected) : -1;
    const begin = at < 0 ? all.findIndex(({ ex }) => ex === this.state?.next) : at + 1;
    const order = [...all.slice(begin), ...all.slice(0, begin)].filter(({ state }) => state !== "passed");
    if (front) this.#say(front, "");
    if (!order.length) this.view.say(this.view.status, "Every exercise is passed.");
    else await this.#goToFirst(order.map(({ ex }) => ex));
  }

  /** A row was clicked: go to its cell. */
  async select(ex) {
    const panel = this.#lesson();
    if (!panel) return;
    await this.#goTo(panel, ex);
    this.#result(panel).selected = ex;
    this.drawNotebook();
  }

  /** A tile was clicked: go to its exercise. */
  async open(ex) {
    await this.#goToFirst([ex]);
  }

  /** Go to the first of these exercises that has its cells, and say whose are gone. */
  async #goToFirst(names) {
    const gone = [];
    for (const ex of names) {
      const panel = await this.#lessonWith(ex);
      if (!panel) return; // the note says why
      const found = await this.#goTo(panel, ex);
      if (!found) gone.push([ex, panel.title.label]);
      if (gone.length) this.#say(panel, cellsAreGone(gone));
      if (found) return;
    }
  }

  /** The notebook in front if it has the exercise, else its lesson. */
  async #lessonWith(ex) {
    const panel = this.#lesson();
    if (panel && exercisesOf(panel).includes(ex)) return panel;
    return this.lesson(this.#lessons().find(({ exercises }) => exercises.some((one) => one.ex === ex)).path);
  }

  /** The notebook may be behind the start page or another notebook. */
  async #goTo(panel, ex) {
    this.shell.activateById(panel.id);
    return goTo(panel, ex);
  }

  /** Open a lesson, ready to be worked in. */
  async lesson(path) {
    try {
      const isOpen = this.tracker.find((panel) => this.#path(panel) === path);
      const words = isOpen ? null : await this.server.problem(path);
      this.#tellTrouble(words && { path, words });
      if (words) return null;
      const panel = await this.app.commands.execute("docmanager:open", { path });
      await panel?.context.ready;
      await panel?.revealed;
      return panel;
    } catch (error) {
      this.#tellTrouble({ path, words: `${path} cannot be opened. ${error.message}` });
      return null;
    }
  }

  /** What JupyterLab cannot read, such as a file from the last visit, it leaves as a tab that loads forever. */
  async #closeIfDamaged(panel) {
    panel.context.model.dirty = false; // until it is read there is nothing to save, whatever JupyterLab asks then
    const path = this.#path(panel);
    const words = await this.server.problem(path).catch(() => null);
    if (!words || panel.context.isReady) return;
    this.#tellTrouble({ path, words });
    panel.dispose();
  }

  #tellTrouble(trouble) {
    this.trouble = trouble;
    this.#note(this.state?.note);
    if (trouble) this.shell.activateById(this.widget.id); // the start page has no place for it
  }

  start() {
    const { MainAreaWidget, Widget } = this.jupyter;
    if (!this.page || this.page.isDisposed) {
      this.page = new MainAreaWidget({ content: new Widget() });
      this.page.id = "labkit-start";
      this.page.title.label = "Start";
      this.page.title.icon = this.icon;
      this.page.title.closable = true;
      this.page.toolbar.hide();
      this.shell.add(this.page, "main");
      void this.starts.add(this.page);
      this.#drawStart();
    }
    this.shell.activateById(this.page.id);
  }

  #drawStart() {
    if (!this.state) return;
    const { node } = this.page.content;
    const place = node.firstElementChild?.scrollTop ?? 0;
    node.replaceChildren(startPage(this.state, this.does));
    node.firstElementChild.scrollTop = place;
  }

  // small questions

  /** The notebook in front, if it has exercises of the course, or should have. */
  #lesson() {
    const panel = this.tracker.currentWidget;
    const isOne = panel && (exercisesOf(panel).length || (panel.context.isReady && this.#lessonAt(panel)));
    return isOne ? panel : null;
  }

  #lessons() {
    return this.state?.weeks.flatMap((week) => week.lessons) ?? [];
  }

  #lessonAt(panel) {
    return this.#lessons().find(({ path }) => path === this.#path(panel));
  }

  #path(panel) {
    return this.app.serviceManager.contents.localPath(panel.context.path);
  }

  #title(panel) {
    const [first] = exercisesOf(panel);
    const found = this.#lessons().find(({ exercises }) => exercises.some(({ ex }) => ex === first));
    return (found ?? this.#lessonAt(panel))?.title ?? panel.title.label;
  }

  #exercise(ex) {
    return this.#lessons()
      .flatMap((lesson) => lesson.exercises)
      .find((one) => one.ex === ex);
  }

  #result(panel) {
    if (!this.results.has(panel.context)) {
      this.results.set(panel.context, { verdicts: {}, answers: {}, words: "", selected: exerciseAt(panel) });
    }
    return this.results.get(panel.context);
  }

  #say(panel, words) {
    this.#result(panel).words = words;
    if (panel === this.tracker.currentWidget) this.view.say(this.view.status, words);
  }
}

/** Whoever opens a notebook again finds the last picture of an explorer, but no controls: say how to get them. */
function explainLostControls(node) {
  const look = () => {
    for (const place of node.querySelectorAll(".jupyter-widgets")) {
      if (place.textContent === LOST) place.textContent = FOUND_AGAIN;
    }
  };
  new MutationObserver(look).observe(node, { childList: true, subtree: true });
  look();
}

/** What to do about exercises without cells, given as [exercise, file]. A reset of one brings all back. */
function cellsAreGone(gone) {
  const names = gone.map(([ex, file]) => `\`${ex}\` (${file})`).join(", ");
  const back = `save the notebook, type \`make reset EX=${gone[0][0]}\` in a terminal`;
  return `No cells are left of ${names}. To have them back, ${back}, then choose File > Reload Notebook from Disk.`;
}

/** A function that runs once, when nothing has happened for a moment. */
function later(run) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(run, QUIET);
  };
}
