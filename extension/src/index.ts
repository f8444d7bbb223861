// The workbench in JupyterLab 4 and Notebook 7, beside the panel (an anywidget, which needs no extension):
// kernels in cells read as CUDA, and commands write the workbench's cells.

import type { LanguageSupport } from "@codemirror/language";
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { EditorExtensionRegistry, IEditorExtensionRegistry, IEditorLanguageRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker } from "@jupyterlab/notebook";
import { kernelCell } from "./cells";
import { addCommands } from "./commands";

const cells: JupyterFrontEndPlugin<void> = {
  id: "cuda-workbench:cells",
  description: "Shows %%cuda_kernel cells as CUDA C++ with their plan.",
  autoStart: true,
  requires: [IEditorExtensionRegistry, IEditorLanguageRegistry],
  activate: (_: JupyterFrontEnd, editors: IEditorExtensionRegistry, languages: IEditorLanguageRegistry) => {
    const cpp = async (): Promise<LanguageSupport | null> => (await languages.getLanguage("C++"))?.support ?? null;
    editors.addExtension({
      name: "cuda-workbench:cells",
      // An editor begins as text/plain, until the kernel has told its language; it is not made again then.
      factory: (options) =>
        options.model.mimeType === "text/x-ipython" || options.model.mimeType === "text/x-python" || options.model.mimeType === "text/plain"
          ? EditorExtensionRegistry.createImmutableExtension(kernelCell(cpp))
          : null,
    });
  },
};

const commands: JupyterFrontEndPlugin<void> = {
  id: "cuda-workbench:commands",
  description: "Commands that put the workbench's magics into cells.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, tracker: INotebookTracker, palette: ICommandPalette | null) => {
    for (const command of addCommands(app, tracker)) palette?.addItem({ command, category: "CUDA" });
  },
};

export default [cells, commands];
