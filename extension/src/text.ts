// What a cell of the workbench looks like as text. Pure: no editor, no notebook, so node can test it.

/** Whether a cell's text holds a kernel: plan and device code behind the magic. */
export function isKernelCell(firstLine: string): boolean {
  return /^%%cuda_kernel(\s|$)/.test(firstLine);
}

/** The lines, counted from 0, that a cell's plan takes, from `/* plan` to the end of that comment. */
export function planLines(lines: readonly string[]): [number, number] | null {
  const first = lines.findIndex((line) => /^\s*\/\*\s*plan\s*$/.test(line));
  if (first < 0) return null;
  const length = lines.slice(first).findIndex((line) => line.includes("*/"));
  return [first, length < 0 ? lines.length - 1 : first + length];
}

/** A cell that is to be searched: the magic on top, unless a cell magic is there already. */
export function withSearch(source: string): string {
  return source.startsWith("%%") ? source : `%%cuda_optimize --rounds 3\n${source}`;
}

/** Whether one of a notebook's cells loads the magics. */
export function loadsWorkbench(sources: readonly string[]): boolean {
  return sources.some((source) => /^\s*%(load|reload)_ext\s+workbench\b/m.test(source));
}

export interface Operation {
  name: string;
  parameters: string[];
}

/** The operation of the last `%%cuda_optimize` cell of these: its first function and that one's parameters. */
export function lastOperation(sources: readonly string[]): Operation | null {
  for (const source of [...sources].reverse()) {
    if (!/^%%cuda_optimize\b/.test(source)) continue;
    const found = /^def\s+(\w+)\s*\(([^)]*)\)/m.exec(source);
    if (found === null) return { name: "", parameters: ["x"] };
    const parameters = found[2].split(",").map((part) => part.trim().replace(/[:=].*$/s, "").trim());
    return { name: found[1], parameters: parameters.filter((part) => /^[A-Za-z_]\w*$/.test(part)) };
  }
  return null;
}

/** A kernel to begin with: it compiles and copies its first input, which the referee will say is wrong. */
export function skeleton(operation: Operation | null): string {
  const parameters = operation?.parameters.length ? operation.parameters : ["x"];
  const [input] = parameters;
  const kernel = `${operation?.name || "my"}_kernel`;
  return `%%cuda_kernel${operation?.name ? ` ${operation.name}` : ""}
/* plan
def plan(${parameters.join(", ")}):
    require(${input}.dtype == f32 and ${input}.is_contiguous, "contiguous float32 only")
    out = empty_like(${input})
    launch("${kernel}", grid=cdiv(${input}.numel, 256), block=256, args=[${input}, out, ${input}.numel])
    return out
*/

// One thread an element. Now it copies: write what the operation computes.
__global__ void ${kernel}(const float* ${input}, float* out, long long count) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < count) {
        out[i] = ${input}[i];
    }
}
`;
}
