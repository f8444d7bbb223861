// Writes labextension/sources.json: a digest of everything the built files come from, so that a checkout without
// node can tell whether they are up to date (tests/test_extension.py).
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const folders = ["src", "style"].flatMap((folder) => readdirSync(folder).sort().map((name) => `${folder}/${name}`));
const digest = createHash("sha256");
for (const path of [...folders, "package-lock.json", "package.json", "tsconfig.json"]) {
  digest.update(`${path}\n`).update(readFileSync(path));
}
writeFileSync("labextension/sources.json", `${JSON.stringify({ sources: digest.digest("hex") })}\n`);
