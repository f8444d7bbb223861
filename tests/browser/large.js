// The panel over 500 branches, without a notebook around it: node large.js DATA.json PANEL.js SHOTS_FOLDER
// DATA holds views (before, after, with one branch more), shapes and style. Prints one finding a line; the
// times are told for a person to read, never judged: they belong to the machine.
const fs = require("fs");
const { chromium } = require("playwright-core");

const [, , dataFile, panelFile, shots] = process.argv;
let failed = 0;

function check(name, good) {
  if (!good) failed += 1;
  console.log(`${good ? "ok" : "FAILED"} ${name}`);
}

async function measure(data) {
  const told = {};
  const listeners = {};
  const values = { ...data, view: data.views[0], key: "", failure: "", busy: "" };
  const sent = window.sent = [];
  const model = { get: (name) => values[name], on: (name, act) => { listeners[name] = act; }, off() {}, send: (message) => sent.push(message) };
  window.tell = (message) => listeners["msg:custom"](message);
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  const timed = async (name, act) => {
    const before = await window.threadMs();
    const start = performance.now();
    act();
    await painted();
    told[name] = [Math.round(performance.now() - start), Math.round(await window.threadMs() - before)];
  };
  const show = (number) => () => { values.view = data.views[number]; listeners["change:view"](); };
  await timed("first paint", () => window.panel.render({ model, el: document.getElementById("place") }));
  for (const round of [1, 2, 3]) await timed(`update ${round}`, show(round % 2));
  await timed("one branch more", show(2));
  const tree = document.querySelector(".wb-panel .tree");
  const press = (key) => () => tree.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  for (const key of ["End", "ArrowUp", "Home", "-", "+", "0"]) await timed(`key ${key}`, press(key));
  const rows = document.querySelectorAll("[role=treeitem]").length;
  return { told, rows, fits: tree.scrollHeight <= tree.clientHeight || document.querySelector("[role=treeitem]").offsetHeight <= 3 };
}

// An editor that cannot be had must not keep anybody from reading or writing a kernel.
async function withoutEditor(page) {
  await page.locator('[data-branch="b1"]').click();
  await page.getByRole("tab", { name: "Source" }).click();
  check("the editor is asked for", await page.evaluate(() => window.sent.some((message) => message.type === "editor")));
  await page.evaluate(() => window.tell({ type: "editor", script: "throw new Error('no editor here')" }));
  check("without it the kernel is read as text", (await page.locator(".wb-panel .listing .line").count()) > 10);
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.locator(".wb-panel textarea").fill("int x = y;");
  await page.waitForFunction(() => window.sent.some((message) => message.type === "check" && message.source === "int x = y;"));
  const ticket = await page.evaluate(() => window.sent.filter((message) => message.type === "check").at(-1).ticket);
  await page.evaluate((number) => window.tell({ type: "checked", ticket: number, known: true, words: "", diagnostics: [{ severity: "error", line: 1, column: 9, message: "y is undefined" }] }), ticket);
  check("and written as text, with the compiler's messages", (await page.locator(".wb-panel .check-errors").innerText()).includes("line 1: y is undefined"));
}

async function main() {
  const data = JSON.parse(fs.readFileSync(dataFile));
  const script = fs.readFileSync(panelFile, "utf8").replace(/export\{(\w+) as default\};?\s*$/, "window.panel=$1;");
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 } });
  page.on("pageerror", (error) => check(`no error on the page: ${error.message}`, false));
  await page.setContent("<!doctype html><body class='wb-page'><div id='place' class='wb'></div></body>");
  await page.addStyleTag({ content: data.style });
  await page.addScriptTag({ type: "module", content: script });
  await page.waitForFunction(() => window.panel);
  // What the page's own thread worked, whoever else wanted the processor meanwhile.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.exposeFunction("threadMs", async () => 1000 * (await devtools.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value);
  const found = await page.evaluate(measure, data);
  for (const [name, [ms, work]] of Object.entries(found.told)) console.log(`ms ${name}: ${ms} ${work}`);
  check("every branch that is not below a pruned one has a row", found.rows === data.shown);
  check("the whole tree fits", found.fits);
  await page.screenshot({ path: `${shots}/large-fit.png` });
  await page.locator(".wb-panel .tree").press("0");
  await withoutEditor(page);
  await browser.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => { console.log(`FAILED ${error.stack}`); process.exit(1); });
