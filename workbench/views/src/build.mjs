// Builds the browser assets: node build.mjs. Writes ../static/{panel,editor,page}.js and ../static/assets.json.
// assets.json holds a digest of everything the built files come from, so that a checkout without node can
// still tell whether they are up to date (tests/views/test_assets.py).
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const STATIC = join(HERE, "..", "static");
const LIMITS = { "panel.js": 40_000, "editor.js": 700_000, "page.js": 45_000 };

function sources(folder) {
  return readdirSync(folder).sort().flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? sources(path) : [path];
  });
}

const kept = [...sources(join(HERE, "panel")), ...sources(join(HERE, "editor")), ...sources(join(HERE, "page")), join(HERE, "package-lock.json"), join(HERE, "build.mjs")];
const digest = createHash("sha256");
for (const path of kept) digest.update(`${relative(HERE, path)}\n`).update(readFileSync(path));

await build({
  entryPoints: { panel: join(HERE, "panel/main.js"), editor: join(HERE, "editor/main.js"), page: join(HERE, "page/main.js") },
  outdir: STATIC, bundle: true, minify: true, format: "esm", target: "es2022", charset: "utf8", legalComments: "none",
});
const sizes = {};
for (const [name, limit] of Object.entries(LIMITS)) {
  sizes[name] = readFileSync(join(STATIC, name)).length;
  if (sizes[name] > limit) throw new Error(`${name} has ${sizes[name]} bytes; the limit is ${limit}`);
}
writeFileSync(join(STATIC, "assets.json"), `${JSON.stringify({ sources: digest.digest("hex"), bytes: sizes }, null, 1)}\n`);
console.log(sizes);
