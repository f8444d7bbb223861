// Clicks through a live session in JupyterLab or Notebook 7: node scenario.js URL SHOTS_FOLDER HOLD THEME SUBSHELLS APP
// THEME is light or dark; SUBSHELLS is perCommTarget or disabled, as the Lab setting has it; APP is lab or notebook.
// Prints one line a finding and ends with status 1 when any of them failed. Nothing hangs on the clock: while
// the file HOLD is there no branch is judged and the notebook's second cell does not end.
const fs = require("fs");
const { chromium } = require("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const [, , url, shots, hold, theme, subshells, app = "lab"] = process.argv;
const PATIENCE_MS = 300000; // for machines that do much else; a finding itself takes a moment
const RELOAD_MS = 40000; // until a page is loaded once more
const begun = Date.now();
let failed = 0;

function check(name, good, seen = "") {
  if (!good) failed += 1;
  console.log(`${good ? "ok" : "FAILED"} ${name}${good ? "" : ` (${seen})`} [${((Date.now() - begun) / 1000).toFixed(1)} s]`);
}

function holding(kept) {
  if (kept) fs.writeFileSync(hold, "");
  else fs.unlinkSync(hold);
}

async function until(page, name, test, argument, timeout = PATIENCE_MS) {
  try {
    await page.waitForFunction(test, argument, { timeout });
    check(name, true);
  } catch (error) {
    check(name, false, String(error).split("\n")[0]);
  }
}

async function openLab(browser) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => {
    // Jupyter's own scripts come from the server and have errors of their own; ours come from a blob.
    const ours = /blob:/.test(error.stack);
    if (ours) check("no error of ours on the page", false, error.stack);
    else console.log(`told: ${error.message.split("\n")[0]}`);
  });
  // Lab's own dialogs, of its file browser or of news, are not what is tried here.
  await page.addLocatorHandler(page.locator(".jp-Dialog"), async (dialog) => {
    console.log(`told: ${(await dialog.innerText()).split("\n")[0]}`);
    await dialog.locator(".jp-mod-accept").first().click();
  });
  await page.goto(app === "lab" ? `${url}/lab/tree/story.ipynb?reset` : `${url}/notebooks/story.ipynb`);
  await page.waitForFunction(() => window.jupyterapp?.restored);
  await page.evaluate(() => window.jupyterapp.restored);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
  // Lab keeps a side bar open, which does not belong on a picture.
  await page.evaluate(() => {
    if (document.querySelector(".jp-SideBar .lm-mod-current")) window.jupyterapp.commands.execute("application:toggle-left-area");
  });
  return page;
}

const runCell = (page, index) => page.evaluate(async (i) => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.sessionContext.ready;
  panel.content.activeCellIndex = i;
  window.jupyterapp.commands.execute("notebook:run-cell");
}, index);

const shot = (page, name) => page.locator(".wb-panel").first().screenshot({ path: `${shots}/${name}-${theme}.png` });
const row = (id) => `.wb-panel [role=treeitem][data-branch="${id}"]`;
const button = (page, name) => page.locator(".wb-panel").getByRole("button", { name, exact: true });
const tab = (page, name) => page.locator(".wb-panel").getByRole("tab", { name, exact: true }).click();
const rowText = ([selector, text]) => document.querySelector(selector)?.innerText.includes(text);
const running = () => document.querySelector(".wb-panel .head .verdict")?.innerText.match(/running|compiling|writing/);

async function whileRunning(page) {
  await until(page, "a branch is being judged", running);
  await page.locator(row("b1")).click();
  await button(page, "Approve").click();
  await until(page, "approve is recorded while branches run", rowText, [row("b1"), "approved"]);
  check("branches are still running after the click", await page.evaluate(() => document.querySelector(".wb-panel .head .verdict").innerText.includes("round 1 of")));
  await page.locator(row("b2")).click();
  await button(page, "Prune").click();
  await until(page, "prune is recorded", rowText, [row("b2"), "pruned"]);
  await button(page, "Undo").click();
  await until(page, "undo takes it back", ([s]) => !document.querySelector(s)?.innerText.includes("pruned"), [row("b2")]);
  await page.evaluate(() => { document.querySelector(".wb-panel .note").textContent = ""; });
  const below = () => page.evaluate(([selector]) => document.querySelector(selector).getBoundingClientRect().top
    - document.querySelector(".wb-panel .gate").getBoundingClientRect().bottom, [row("b1")]);
  const before = await below();
  await page.getByLabel("Hint for the next round").fill("keep the row in registers");
  await button(page, "Send hint").click();
  await until(page, "the hint is noted", () => document.querySelector(".wb-panel .note")?.innerText.includes("Noted"));
  check("a note moves no branch under the pointer", await below() === before);
  await shot(page, "1-running");
  check("all the while branches were running", await page.evaluate(running));
}

// Nothing but keys, from the panel's first control on: what a person without a mouse does.
async function byKeysAlone(page) {
  const at = () => page.evaluate(() => document.activeElement?.dataset.branch ?? document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.innerText);
  const cells = await page.locator(".jp-Notebook .jp-Cell").count();
  await page.getByLabel("Hint for the next round").focus();
  const seen = [];
  for (let i = 0; i < 20 && !/^b\d/.test(seen.at(-1)); i += 1) {
    await page.keyboard.press("Tab");
    seen.push(String(await at()));
  }
  check("Tab passes the gate's buttons on its way to the tree", seen.includes("Next round") && /^b\d/.test(seen.at(-1)), seen.join(", "));
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  check("Enter goes into the branch's card", await page.evaluate(() => document.activeElement.classList.contains("card")));
  for (let i = 0; i < 6 && (await page.evaluate(() => document.activeElement.getAttribute("role"))) !== "tab"; i += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  check("arrows change the tab, which alone is in the order", (await at()) === "Compile" && (await page.locator(".wb-panel [role=tab][tabindex='0']").count()) === 1, await at());
  await page.keyboard.press("Tab");
  check("Tab goes into what the tab shows", await page.evaluate(() => Boolean(document.activeElement.closest("[role=tabpanel]"))));
  for (const key of ["x", "d", "d", "Escape", "b"]) await page.keyboard.press(key);
  check("keys in the card leave the notebook's cells alone", (await page.locator(".jp-Notebook .jp-Cell").count()) === cells);
}

async function keyboard(page) {
  const cells = await page.locator(".jp-Notebook .jp-Cell").count();
  await page.locator(row("b1")).click();
  for (const key of ["x", "d", "d", "ArrowDown", "ArrowDown", "ArrowUp"]) await page.keyboard.press(key);
  check("x and dd do not cut the cell", (await page.locator(".jp-Notebook .jp-Cell").count()) === cells);
  const focused = await page.evaluate(() => document.activeElement?.dataset.branch);
  check("arrows move through the tree", focused && focused !== "b1", focused);
  await page.keyboard.press("a");
  await until(page, "a approves the focused branch", rowText, [row(focused), "approved"]);
  await page.keyboard.press("a");
  await until(page, "a again takes it back", ([s]) => !document.querySelector(s)?.innerText.includes("approved"), [row(focused)]);
}

// Playwright's fill works on CodeMirror's content as on a text area: everything is selected and typed over.
async function editText(page, change) {
  await page.waitForSelector(".wb-panel .editor.editing .cm-content");
  const text = await page.evaluate(() => [...document.querySelectorAll(".wb-panel .editor.editing .cm-line")].map((line) => line.textContent).join("\n"));
  await page.locator(".wb-panel .editor.editing .cm-content").fill(change(text));
}

const typedText = (page) => page.evaluate(() => document.querySelector(".wb-panel .editor.editing .cm-content")?.innerText ?? "");

// What is typed is somebody's work: looking elsewhere, Edit once more or a cell that is moved must not cost it.
async function drafts(page) {
  for (const id of ["b1", "b2"]) {
    await page.locator(row(id)).click();
    await button(page, "Edit").click();
    await editText(page, (text) => `// typed into ${id}\n${text}`);
  }
  await until(page, "a branch with a draft says so", rowText, [row("b1"), "draft"]);
  await page.locator(row("b1")).click();
  check("two branches keep what was typed into each", (await typedText(page)).includes("typed into b1"), await typedText(page));
  await button(page, "Edit").click();
  await tab(page, "Compile");
  await page.evaluate(async () => {
    const { commands, shell } = window.jupyterapp;
    shell.currentWidget.content.activeCellIndex = 1;
    for (const way of ["down", "up"]) await commands.execute(`notebook:move-cell-${way}`);
  });
  await page.locator(row("b1")).click();
  await button(page, "Edit").click();
  await until(page, "also when the cell is moved", () => document.querySelector(".wb-panel .editor.editing .cm-content")?.innerText.includes("typed into b1"));
  for (const id of ["b1", "b2"]) {
    await page.locator(row(id)).click();
    await button(page, "Edit").click();
    await button(page, "Cancel").click();
    await until(page, `Cancel forgets the draft of ${id}`, ([s]) => !document.querySelector(s)?.innerText.includes("draft"), [row(id)]);
    check("and the row has the focus", (await page.evaluate(() => document.activeElement?.dataset.branch)) === id);
  }
}

async function edit(page) {
  holding(false);
  await page.locator(row("b1")).click();
  await tab(page, "Source");
  await until(page, "the editor is loaded when a kernel is opened", () => document.querySelector(".wb-panel .cm-editor .cuda"));
  await button(page, "Edit").click();
  await editText(page, (text) => text.replace("= block_sum<", "= block_sun<"));
  await until(page, "an error is shown while typing", () => document.querySelector(".wb-panel .editor .diagnostic")?.innerText.includes("block_sun"));
  await until(page, "and counted", () => document.querySelector(".wb-panel .check-state")?.innerText.includes("1 error"));
  await shot(page, "2-edit");
  await button(page, "Judge this kernel").click();
  await until(page, "the edit becomes a branch of the person's", (s) => document.querySelector(s), row("e1"));
  await until(page, "its compile error is told", rowText, [row("e1"), "does not compile"]);
  await page.locator(row("e1")).click();
  await tab(page, "Source");
  await until(page, "the error stands under its line", () => document.querySelector(".wb-panel .diagnostic")?.innerText.includes("block_sun"));
  await shot(page, "3-compile-error");
  await button(page, "Edit").click();
  await editText(page, (text) => text.replace("block_sun<", "block_sum<").replace("pass 1", "first pass"));
  await until(page, "the mended text compiles while typing", () => document.querySelector(".wb-panel .check-state")?.innerText.includes("compiles"));
  await button(page, "Judge this kernel").click();
  await until(page, "the mended kernel passes", rowText, [row("e2"), "x (model)"]);
  check("the gate and the tree have their roles", (await page.locator(".wb-panel [role=toolbar]").count()) === 2 && (await page.locator(".wb-panel [role=tree]").getAttribute("aria-label")) === "Branches");
  check("every branch says who made it", await page.evaluate(() => document.querySelector(".wb-panel .deeds").textContent.includes("person wrote e2")));
}

async function comparison(page) {
  for (const id of ["b1", "b2", "e2"]) await page.locator(`.wb-panel [data-mark="${id}"]`).click();
  await page.locator(row("b1")).press("c");
  await until(page, "three branches stand side by side", () => document.querySelectorAll(".wb-panel table.compare thead th").length === 3);
  check("what differs is marked", (await page.locator(".wb-panel table.compare tr.differs").count()) > 0);
  check("with the source's changes", (await page.locator(".wb-panel .compared .diff-added").count()) > 0);
  await shot(page, "11-compare");
  await button(page, "Back to the tree").click();
  await page.locator(".wb-panel .marked-bar").getByRole("button", { name: "Clear" }).click();
  await tab(page, "Source");
  await page.locator(".wb-panel").getByLabel("Compare the source with").selectOption("reference");
  await until(page, "the reference stands beside the kernel", () => document.querySelector(".wb-panel .beside")?.innerText.includes("torch.softmax"));
  await page.locator(".wb-panel").getByLabel("Compare the source with").selectOption("b2");
  await until(page, "the difference from any branch is shown", () => document.querySelectorAll(".wb-panel .word-changed").length > 0);
  await shot(page, "12-difference");
}

async function zoom(page) {
  await page.locator(row("b1")).click();
  const height = () => page.locator(row("b1")).evaluate((node) => node.offsetHeight);
  const before = await height();
  await page.keyboard.press("-");
  check("- makes rows smaller", (await height()) < before);
  await page.keyboard.press("0");
  check("0 fits the tree", await page.locator(".wb-panel .tree").evaluate((node) => node.scrollHeight <= node.clientHeight));
  await page.keyboard.press("0");
  await page.keyboard.press("+");
  check("+ makes them large again", (await height()) === before);
  check("one row is in the tab order", (await page.locator(".wb-panel [role=treeitem][tabindex='0']").count()) === 1);
}

async function cards(page) {
  await page.locator(".wb-panel .plan-next summary").click();
  await page.locator(".wb-panel .plan-box label", { hasText: "read the cards first" }).locator("input").check();
  await page.getByLabel("Branches of the next round").fill("3");
  await page.getByLabel("Branches of the next round").press("Tab");
  await until(page, "the plan of the next round is noted", () => document.querySelector(".wb-panel .plan-next summary").innerText.includes("3 wide, cards first"));
  await page.locator(".wb-panel .plan-next summary").click();
  await button(page, "Next round").click();
  await until(page, "the cards wait to be read", () => document.querySelector(".wb-panel .head")?.innerText.includes("3 cards to read"));
  const waiting = await page.evaluate(() => [...document.querySelectorAll(".wb-panel [role=treeitem]")].filter((item) => item.innerText.includes("waiting")).map((item) => item.dataset.branch));
  check("as many as were asked for", waiting.length === 3, waiting);
  await page.locator(row(waiting[0])).click();
  await tab(page, "Hypothesis");
  await page.getByLabel("Title of the card").fill("In my own words");
  await shot(page, "13-cards");
  await button(page, "Rewrite card").click();
  await until(page, "a card is rewritten", rowText, [row(waiting[0]), "In my own words"]);
  await button(page, "Undo").click();
  await until(page, "undo brings the reasoner's words back", ([s]) => !document.querySelector(s).innerText.includes("In my own words"), [row(waiting[0])]);
  await page.locator(row(waiting[1])).click();
  await button(page, "Strike card").click();
  await until(page, "a card is struck", rowText, [row(waiting[1]), "pruned"]);
  await button(page, "Release cards").click();
  await until(page, "the round runs without it", () => document.querySelector(".wb-panel .head")?.innerText.includes("round 3 is done"));
  check("the struck card has no kernel", (await page.locator(row(waiting[1])).innerText()).includes("struck"));
}

async function whileBlocked(page) {
  holding(true);
  await runCell(page, 1);
  // Not the kernel's status: that flips with every message a subshell takes.
  const blocked = () => document.querySelectorAll(".jp-Notebook .jp-CodeCell")[1].querySelector(".jp-InputPrompt").innerText.includes("*");
  await until(page, "a cell blocks the kernel", blocked);
  await page.locator(row("b3")).click();
  await button(page, "Approve").click();
  if (subshells === "disabled") {
    holding(false);
    await until(page, "approve is recorded after the cell that blocked", rowText, [row("b3"), "approved"]);
    return;
  }
  await until(page, "approve is recorded while a cell blocks the kernel", rowText, [row("b3"), "approved"]);
  check("the cell was still running", await page.evaluate(blocked));
  holding(false);
}

async function nextRound(page) {
  await until(page, "after the round it waits for the person", () => document.querySelector(".wb-panel .head")?.innerText.includes("Next round"));
  await button(page, "Next round").click();
  await until(page, "the next round runs", () => document.querySelector(".wb-panel .head .verdict")?.innerText.includes("round 2"));
  await until(page, "and ends", () => document.querySelector(".wb-panel .head")?.innerText.includes("round 2 is done"));
}

async function pictures(page) {
  const best = await page.evaluate(() => [...document.querySelectorAll(".wb-panel .row.tone-best")][0]?.dataset.branch);
  check("a best branch is marked", Boolean(best));
  await page.locator(row(best)).click();
  for (const [index, name] of ["Hypothesis", "Source", "Compile", "Numbers", "Speed", "Profile", "Conversation", "Receipt"].entries()) {
    await tab(page, name);
    await shot(page, `${index + 20}-${name.toLowerCase()}`);
  }
  const wrong = await page.evaluate(() => [...document.querySelectorAll(".wb-panel .row")].find((r) => r.innerText.includes("wrong numbers"))?.dataset.branch);
  check("a wrong kernel is in the tree", Boolean(wrong));
  await page.locator(row(wrong)).click();
  await tab(page, "Numbers");
  check("it has a heatmap", (await page.locator(".wb-panel .heat path").count()) > 2);
  await shot(page, "9-wrong-numbers");
}

const restored = (page) =>
  page.waitForFunction(() => document.querySelectorAll(".wb-panel [role=treeitem]").length > 6, undefined, { timeout: RELOAD_MS }).then(() => true, () => false);

async function reload(page, browser) {
  await page.evaluate(() => window.jupyterapp.commands.execute("docmanager:save"));
  await page.close();
  let again = await openLab(browser);
  // ipywidgets waits four seconds for the kernel to answer, and a page may stay without its panel later: on a
  // machine with too much to do a person reloads once more.
  for (let more = 2; more > 0 && !(await restored(again)); --more) {
    console.log("told: reloaded once more");
    await again.close();
    again = await openLab(browser);
  }
  await until(again, "after a reload the panel is there", () => document.querySelectorAll(".wb-panel [role=treeitem]").length > 6);
  check("the snapshot is hidden beside it", !(await again.locator(".wb-report.frozen").first().isVisible()));
  await again.locator(row("e1")).click();
  await until(again, "and answers clicks", () => document.querySelector(".wb-panel .card")?.innerText.includes("edit of b1"));
  return again;
}

async function interrupt(page) {
  await page.locator(".wb-panel .plan-next summary").click();
  await page.locator(".wb-panel .plan-box label", { hasText: "read the cards first" }).locator("input").uncheck();
  await page.locator(".wb-panel .plan-next summary").click();
  holding(true);
  await button(page, "Next round").click();
  await until(page, "a round runs again", running);
  await page.evaluate(() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt());
  await until(page, "the kernel's interrupt stops the search", () => document.querySelector(".wb-panel .head .verdict")?.innerText.includes("stopped: by the person"));
  holding(false);
  await button(page, "Undo").click();
  await until(page, "and undo goes on", () => document.querySelector(".wb-panel .head")?.innerText.includes("round 4 is done"));
}

async function freeze(page, browser) {
  await runCell(page, 2);
  await until(page, "closing freezes the panel", () => !document.querySelector(".wb-panel") && document.querySelector(".wb-report.frozen svg.tree"));
  await page.locator(".wb-report.frozen").first().screenshot({ path: `${shots}/10-frozen-${theme}.png` });
  await page.evaluate(() => window.jupyterapp.commands.execute("docmanager:save"));
  await page.evaluate(() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown());
  await page.close();
  const fresh = await openLab(browser);
  await until(fresh, "reopened without its kernel it still shows the tree", () => document.querySelector(".wb-report.frozen svg.tree"));
  return fresh;
}

async function restart(page) {
  await page.evaluate(() => {
    const cell = window.jupyterapp.shell.currentWidget.content.widgets[2].model;
    cell.sharedModel.setSource("from workbench.live import look\nshown = look('session').show()");
  });
  await runCell(page, 2);
  await until(page, "a recorded session is shown", () => document.querySelectorAll(".wb-panel [role=treeitem]").length > 6);
  await page.evaluate(() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  await until(page, "a panel whose kernel was restarted says so, and what to do", () => document.querySelector(".wb-panel .head [role=alert]")?.innerText.includes("%cuda_resume session"));
  await button(page, "Approve").click();
}

async function main() {
  // Asked about news, Lab shows a notice over the notebook.
  const settings = { "kernels-settings": { commsOverSubshells: subshells }, notification: { fetchNews: "false", checkForUpdates: false } };
  for (const [name, chosen] of Object.entries(settings)) {
    await fetch(`${url}/lab/api/settings/@jupyterlab/apputils-extension:${name}`, { method: "PUT", body: JSON.stringify({ raw: JSON.stringify(chosen) }) });
  }
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS });
  let page = await openLab(browser);
  if (theme === "dark") await page.evaluate(() => window.jupyterapp.commands.execute("apputils:change-theme", { theme: "JupyterLab Dark" }));
  await runCell(page, 0);
  await until(page, "the panel is shown and the cell has returned", () => document.querySelector(".wb-panel [role=treeitem]")
    && window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === "idle");
  await whileRunning(page);
  await keyboard(page);
  await byKeysAlone(page);
  await drafts(page);
  await edit(page);
  await whileBlocked(page);
  await nextRound(page);
  await comparison(page);
  await zoom(page);
  await cards(page);
  await pictures(page);
  page = await reload(page, browser);
  await interrupt(page);
  await restart(await freeze(page, browser));
  await browser.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => { console.log(`FAILED ${error.stack}`); process.exit(1); });
