// Two commands that write cells: a search over the active one, and a kernel by hand below it. They run nothing.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { NotebookActions, type INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { lastOperation, loadsWorkbench, skeleton, withSearch } from "./text";

export const SEARCH = "cuda-workbench:search-cell";
export const KERNEL = "cuda-workbench:kernel-by-hand";

const sourcesOf = (panel: NotebookPanel): string[] => panel.content.widgets.map((cell) => cell.model.sharedModel.getSource());

/** Put the magic on top of the active cell, and a cell that loads it above where no cell does. */
function searchCell(panel: NotebookPanel): void {
  const notebook = panel.content;
  const cell = notebook.activeCell;
  if (cell === null || cell.model.type !== "code") return;
  const loaded = loadsWorkbench(sourcesOf(panel));
  cell.model.sharedModel.setSource(withSearch(cell.model.sharedModel.getSource()));
  if (loaded) return;
  NotebookActions.insertAbove(notebook);
  notebook.activeCell?.model.sharedModel.setSource("%load_ext workbench");
}

/** A new cell below with a kernel that compiles, for the operation that is searched above it. */
function kernelByHand(panel: NotebookPanel): void {
  const notebook = panel.content;
  const above = sourcesOf(panel).slice(0, notebook.activeCellIndex + 1);
  NotebookActions.insertBelow(notebook);
  notebook.activeCell?.model.sharedModel.setSource(skeleton(lastOperation(above)));
  notebook.mode = "edit";
}

/** Register both; returns their ids and labels for palettes. */
export function addCommands(app: JupyterFrontEnd, tracker: INotebookTracker): string[] {
  const add = (id: string, label: string, caption: string, act: (panel: NotebookPanel) => void): void => {
    app.commands.addCommand(id, {
      label,
      caption,
      isEnabled: () => tracker.currentWidget !== null,
      isVisible: () => tracker.currentWidget !== null,
      execute: () => {
        if (tracker.currentWidget !== null) act(tracker.currentWidget);
      },
    });
    app.contextMenu.addItem({ command: id, selector: ".jp-Notebook .jp-CodeCell", rank: 50 });
  };
  add(SEARCH, "CUDA: Search Kernels for This Cell", "Put %%cuda_optimize on top of the cell", searchCell);
  add(KERNEL, "CUDA: Write a Kernel by Hand", "A %%cuda_kernel cell below, with a plan to begin with", kernelByHand);
  const changed = (): void => [SEARCH, KERNEL].forEach((id) => app.commands.notifyCommandChanged(id));
  tracker.currentChanged.connect(changed);
  return [SEARCH, KERNEL];
}
