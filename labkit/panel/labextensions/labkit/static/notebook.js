// Reading and changing an open notebook, only ever through JupyterLab's model: what is changed here is undone with
// the usual keys, shows as unsaved, and never touches the file.

const labkitOf = (cell) => cell.getMetadata("labkit") ?? {};

/** The cells of a notebook in the shared model, or none while it loads. */
function cellsOf(panel) {
  return panel.content.model?.sharedModel.cells ?? [];
}

/** The exercises of a notebook in order, whatever the file is called, as long as one of their cells is there. */
export function exercisesOf(panel) {
  const found = cellsOf(panel)
    .map(labkitOf)
    .filter((meta) => meta.ex && ["exercise", "check"].includes(meta.role));
  return [...new Set(found.map((meta) => meta.ex))];
}

/** The notebook as JSON, saved or not: all of it. */
export function contentOf(panel) {
  return panel.content.model.toJSON();
}

/** What is to be graded: outputs do not matter, and pictures among them are large. */
export function withoutOutputs(content) {
  const cells = content.cells.map((cell) => (cell.outputs ? { ...cell, outputs: [] } : cell));
  return { ...content, cells };
}

/** The text of each answer by exercise, to see later whether it changed. */
export function answersOf(panel) {
  const found = {};
  for (const cell of cellsOf(panel)) {
    const { ex, role } = labkitOf(cell);
    if (role === "exercise" && ex) found[ex] = (found[ex] ?? "") + cell.getSource();
  }
  return found;
}

/** The exercise that the cursor is at: that of its cell, else the next one below, else the last one above. */
export function exerciseAt(panel) {
  const names = cellsOf(panel).map((cell) => labkitOf(cell).ex);
  const at = panel.content.activeCellIndex;
  return names.slice(at).find(Boolean) ?? names.slice(0, at).reverse().find(Boolean) ?? null;
}

/** Whether the cursor is at a cell of an exercise, or below it, where Shift+Enter leaves it. */
function isAtOrBelow(notebook, cell) {
  const steps = notebook.activeCellIndex - notebook.widgets.indexOf(cell);
  return Boolean(cell && labkitOf(cell.model.sharedModel).ex) && (steps === 0 || steps === 1);
}

/** Shift+Enter moves the cursor before the result is known. Until then it has not left the exercise. */
export function isWaiting(notebook) {
  const above = notebook.widgets[notebook.activeCellIndex - 1];
  return above?.model.executionState === "running" && isAtOrBelow(notebook, above);
}

/** The exercise that the learner is at after a cell of it ran: the same one unless it went well. Null if the cursor
 *  has gone elsewhere in the meantime. */
export function exerciseAfter(panel, cell, success) {
  if (!isAtOrBelow(panel.content, cell)) return null;
  return success ? exerciseAt(panel) : labkitOf(cell.model.sharedModel).ex;
}

/** Run All leaves the cursor at the last cell, far below the check that stopped it: show that check instead. */
export function comeBack(notebook, cell) {
  const atTheEnd = notebook.mode === "command" && notebook.activeCellIndex === notebook.widgets.length - 1;
  if (!atTheEnd || labkitOf(cell.model.sharedModel).role !== "check") return;
  notebook.activeCellIndex = notebook.widgets.indexOf(cell);
  notebook.scrollToItem(notebook.activeCellIndex, "center").catch(() => {}); // another scroll overtook it
}

/** Put the cursor into the cell where an exercise is answered; false if it has no cell here. */
export async function goTo(panel, ex) {
  const cells = cellsOf(panel);
  let index = cells.findIndex((cell) => labkitOf(cell).ex === ex && labkitOf(cell).role === "exercise");
  if (index < 0) index = cells.findIndex((cell) => labkitOf(cell).ex === ex);
  if (index < 0) return false;
  panel.content.activeCellIndex = index;
  panel.content.mode = "command";
  await panel.content.scrollToItem(index, "center").catch(() => {}); // somebody else scrolls: let them
  panel.content.activate();
  return true;
}

/** Put the first text of an exercise back into its cells. Pieces of a split cell are emptied; a cell that is gone
 *  comes back above its check, and one that was turned into text is code again. True if each cell kept its place,
 *  so that it can be undone in the cell itself. */
export function putBack(panel, ex, cells) {
  const shared = panel.content.model.sharedModel;
  let inPlace = true;
  for (const stub of cells) {
    const same = shared.cells.filter((cell) => labkitOf(cell).id === stub.metadata.labkit.id);
    const home = same.find((cell) => cell.id === stub.id) ?? same[0];
    for (const cell of same) {
      if (cell === home && cell.cell_type !== "code") continue;
      cell.undoManager?.stopCapturing(); // a step of its own, however soon it follows the last key
      cell.setSource(cell === home ? stub.source : "");
    }
    if (home && home.cell_type !== "code") {
      replace(shared, home, { ...stub, metadata: { ...home.getMetadata(), ...stub.metadata } });
      inPlace = false;
    } else if (!home) {
      inPlace = false;
      const check = shared.cells.findIndex(
        (cell) => labkitOf(cell).ex === ex && labkitOf(cell).role === "check",
      );
      shared.insertCell(check < 0 ? shared.cells.length : check, stub);
    }
  }
  for (const widget of panel.content.widgets) {
    if (labkitOf(widget.model.sharedModel).ex === ex) widget.model.clearExecution?.(); // a verdict on what is gone
  }
  return inPlace;
}

/** One cell for another, in a single step of its own. */
function replace(shared, cell, content) {
  const index = shared.cells.indexOf(cell);
  shared.undoManager.stopCapturing();
  shared.transact(() => {
    shared.deleteCell(index);
    shared.insertCell(index, content);
  });
}

/** A kernel that connects completes what the notebook says of its language. That alone is nothing to save: without
 *  this, whoever only reads a lesson is asked about changes. */
export function ignoreWhatTheKernelAdds(model) {
  let kernels = false; // the change that is being made now is the kernel's, to a notebook without others
  model.metadataChanged.connect((_, { key, oldValue, newValue }) => {
    const same = key === "kernelspec" && oldValue?.name === newValue?.name;
    if (model.dirty || (key !== "language_info" && !same)) return;
    kernels = true;
    queueMicrotask(() => (kernels = false));
  });
  model.stateChanged.connect((_, { name, newValue }) => {
    if (name === "dirty" && newValue && kernels) model.dirty = false;
    if (name === "dirty") kernels = false;
  });
}
