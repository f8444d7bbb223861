// Highlights cells that hold a kernel: C++ in place of Python, CUDA's own words, the plan shaded.
//
// Every editor of a notebook cell is watched; only its first line decides. C++ is JupyterLab's own, loaded when
// the first such cell is seen.

import type { LanguageSupport } from "@codemirror/language";
import { Compartment, Prec, RangeSetBuilder, type EditorState, type Extension, type Text } from "@codemirror/state";
import { Decoration, EditorView, MatchDecorator, ViewPlugin, type DecorationSet, type ViewUpdate } from "@codemirror/view";
import { isKernelCell, planLines } from "./text";

const WORDS =
  /\b(?:__(?:global|device|host|shared|constant|managed|restrict|launch_bounds|forceinline|noinline|syncthreads|syncwarp|shfl\w*|ldg|stcs|ldcs|threadfence\w*)(?:__)?(?:_sync)?|threadIdx|blockIdx|blockDim|gridDim|warpSize|atomic[A-Z]\w*|float[234]|int[234]|half2?|__half2?|__nv_bfloat16[2]?)\b/g;

const matcher = new MatchDecorator({ regexp: WORDS, decoration: Decoration.mark({ class: "wb-cuda-word" }) });

const words = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = matcher.createDeco(view);
    }
    update(update: ViewUpdate): void {
      this.decorations = matcher.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

const magicLine = Decoration.line({ class: "wb-cuda-magic" });
const planLine = Decoration.line({ class: "wb-cuda-plan" });

/** Lines of the magic and of the plan. */
export function shaded(state: EditorState): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  builder.add(0, 0, magicLine);
  const plan = planLines(state.doc.toJSON());
  for (let number = plan?.[0] ?? 0; plan !== null && number <= plan[1]; number += 1) {
    const { from } = state.doc.line(number + 1);
    if (number > 0) builder.add(from, from, planLine);
  }
  return builder.finish();
}

const shades = EditorView.decorations.compute(["doc"], shaded);

const holdsKernel = (doc: Text): boolean => isKernelCell(doc.line(1).text);

/** An editor that shows its text as CUDA while it is a kernel's; `cpp` is asked for when first wanted. */
export function kernelCell(cpp: () => Promise<LanguageSupport | null>): Extension {
  const compartment = new Compartment();
  const follower = ViewPlugin.fromClass(
    class {
      private shown = false;
      private gone = false;
      constructor(private readonly view: EditorView) {
        this.follow();
      }
      update(update: ViewUpdate): void {
        if (update.docChanged) this.follow();
      }
      destroy(): void {
        this.gone = true;
      }
      private follow(): void {
        const wanted = holdsKernel(this.view.state.doc);
        if (wanted === this.shown) return;
        this.shown = wanted;
        // A view takes no change while it is being made or updated, so this comes after.
        void (wanted ? cpp() : Promise.resolve(null)).then((support) => {
          if (this.gone || this.shown !== wanted) return;
          const content = wanted ? [support === null ? [] : Prec.highest(support), words, shades] : [];
          this.view.dispatch({ effects: compartment.reconfigure(content) });
        });
      }
    },
  );
  return [compartment.of([]), follower];
}
