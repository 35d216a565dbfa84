// What the tests ask JupyterLab. Answers come from its models, never from pixels.
window.lessons = {
  panel(path) {
    const app = window.jupyterapp;
    return app && [...app.shell.widgets("main")].find((widget) => widget.context?.path === path);
  },

  kernel(path) {
    return this.panel(path)?.sessionContext?.session?.kernel;
  },

  codeCells(path) {
    return this.panel(path).content.widgets.filter((cell) => cell.model.type === "code");
  },

  /** The notebook is drawn and its kernel answers. */
  isReady(path) {
    const panel = this.panel(path);
    const kernel = this.kernel(path);
    return Boolean(
      panel?.context.isReady &&
        panel.content.widgets.length &&
        kernel?.connectionStatus === "connected" &&
        kernel.status === "idle",
    );
  },

  /** No cell waits for the kernel, and one at least has been run. */
  isDone(path) {
    const models = this.codeCells(path).map((cell) => cell.model);
    return models.some((m) => m.executionCount) && models.every((m) => m.executionState !== "running");
  },

  codeCell(path, id) {
    const own = (model) => model.getMetadata("labkit")?.id ?? model.id;
    return this.codeCells(path).find((cell) => own(cell.model) === id);
  },

  joinUndoSteps(path, id) {
    this.codeCell(path, id).model.sharedModel.undoManager.captureTimeout = Infinity;
  },

  /** From now on, remember when this cell comes to the end of a run. */
  watch(path, id) {
    const run = (this.run = { ended: false });
    this.codeCell(path, id).model.stateChanged.connect((_, { name, newValue }) => {
      if (name === "executionState" && newValue === "idle") run.ended = true;
    });
  },

  hasRun() {
    return this.run.ended;
  },

  /** The cell is the active one, and in the visible part of the page. */
  isInView(path, id) {
    const { node } = this.codeCell(path, id);
    const { top, bottom } = node.getBoundingClientRect();
    return node.classList.contains("jp-mod-active") && top >= 0 && bottom <= window.innerHeight;
  },

  /** Scroll a cell into view. Cells are drawn as they come near and move the others, so it may take several goes. */
  async reveal(node) {
    const frame = () => new Promise(requestAnimationFrame);
    const place = () => node.getBoundingClientRect().top;
    for (let still = 0, last = NaN; still < 3; last = place()) {
      node.scrollIntoView({ block: "nearest" });
      await frame();
      still = Math.abs(place() - last) < 1 ? still + 1 : 0;
    }
  },

  /** The notebook as it would be saved now. */
  notebook(path) {
    return this.panel(path).content.model.toJSON();
  },

  /** The server has neither a window nor a kernel for the notebook. */
  async isClosed(path) {
    const ask = async (name) => (await fetch(name)).json();
    const { paths } = await ask("/labkit/api/open");
    const sessions = await ask("/api/sessions");
    return ![...paths, ...sessions.map((session) => session.path)].includes(path);
  },

  /** Whether a cell contains some text. */
  holds(path, id, text) {
    return this.codeCell(path, id).model.sharedModel.getSource().includes(text);
  },

  /** The kernel has told the notebook about its language. */
  knowsItsKernel(path) {
    return Boolean(this.panel(path).context.model.getMetadata("language_info").version);
  },

  /** What a kernel of another version does when it connects. */
  meetAnotherKernel(path) {
    this.panel(path).context.model.setMetadata("language_info", { name: "python", version: "another" });
  },

  isDirty(path) {
    return this.panel(path).context.model.dirty;
  },

  /** The value of a Python expression in the notebook's kernel, as its repr. */
  async ask(path, expression) {
    const content = { code: "", user_expressions: { it: expression }, store_history: false };
    const reply = await this.kernel(path).requestExecute(content).done;
    const { it } = reply.content.user_expressions;
    if (it.status !== "ok") throw new Error(`${it.ename}: ${it.evalue}`);
    return it.data["text/plain"];
  },

  /** Ask a question that takes its time, `name`, until the answer is yes. */
  async until(name, ...rest) {
    const deadline = Date.now() + 60_000;
    while (!(await this[name](...rest))) {
      if (Date.now() > deadline) throw new Error(`in vain: ${name} ${rest.join(" ")}`);
      await new Promise((again) => setTimeout(again, 50));
    }
  },

  /** Whether a Python expression is true in the kernel. */
  async isTrue(path, expression) {
    return (await this.ask(path, `bool(${expression})`)) === "True";
  },

  /** The color behind the page: it follows the page's color scheme and is not always white. */
  canvas() {
    const probe = document.documentElement.appendChild(document.createElement("i"));
    probe.style.cssText = "position: fixed; background-color: Canvas; color-scheme: inherit";
    const [r, g, b] = getComputedStyle(probe).backgroundColor.match(/[\d.]+/g).map(Number);
    probe.remove();
    return [r, g, b];
  },

  /** The contrast (WCAG 2.2) of a color on what is painted behind an element. */
  contrast(color, behind) {
    const parse = (color) => {
      const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
      return { rgb: [r, g, b], a };
    };
    const over = (top, below) => top.rgb.map((c, i) => c * top.a + below[i] * (1 - top.a));
    const background = (node) => {
      if (!node) return this.canvas();
      const own = parse(getComputedStyle(node).backgroundColor);
      return own.a === 1 ? own.rgb : over(own, background(node.parentElement));
    };
    const luminance = (rgb) => {
      const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const below = background(behind);
    const [dark, light] = [luminance(over(parse(color), below)), luminance(below)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  },

  /** The ring around what has the focus: its style, its width, its contrast with what is around it. */
  focusRing(element) {
    const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
    return [outlineStyle, parseFloat(outlineWidth), this.contrast(outlineColor, element.parentElement)];
  },

  /** The lowest contrast of the outline of a button in `element` with what is around it. */
  faintestOutline(element) {
    const outlined = [...element.querySelectorAll("button")]
      .filter((button) => button.checkVisibility() && parseFloat(getComputedStyle(button).borderTopWidth))
      .map((button) => [getComputedStyle(button).borderTopColor, button.parentElement])
      .filter(([color]) => color !== "rgba(0, 0, 0, 0)");
    return Math.min(...outlined.map(([color, around]) => this.contrast(color, around)));
  },

  /** A bar of progress: the width of what is done, its contrast with the rest, the contrast of the outline. */
  meter(element) {
    const done = element.firstElementChild;
    const outline = getComputedStyle(element).borderTopColor;
    return [
      done.getBoundingClientRect().width,
      this.contrast(getComputedStyle(done).backgroundColor, element),
      this.contrast(outline, element.parentElement),
    ];
  },

  /** The text in `element` that is hardest to read on its background: its contrast and words. */
  hardestToRead(element) {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let worst = [21, ""];
    while (texts.nextNode()) {
      const node = texts.currentNode.parentElement;
      if (!texts.currentNode.textContent.trim() || !node.checkVisibility()) continue;
      const contrast = this.contrast(getComputedStyle(node).color, node);
      if (contrast < worst[0]) worst = [contrast, texts.currentNode.textContent.trim()];
    }
    return worst;
  },
};
