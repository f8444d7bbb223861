// A kernel by hand in JupyterLab: node extension.js URL SHOTS_FOLDER. Opens kernel.ipynb, which holds an operation.
// Prints one line a finding and ends with status 1 when any of them failed.
const { chromium } = require("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const [, , url, shots] = process.argv;
const PATIENCE_MS = 300000;
let failed = 0;

function check(name, good, seen = "") {
  if (!good) failed += 1;
  console.log(`${good ? "ok" : "FAILED"} ${name}${good ? "" : ` (${seen})`}`);
}

async function until(page, name, test, argument) {
  try {
    await page.waitForFunction(test, argument, { timeout: PATIENCE_MS });
    check(name, true);
  } catch (error) {
    check(name, false, String(error).split("\n")[0]);
  }
}

const command = (page, id) => page.evaluate((name) => window.jupyterapp.commands.execute(name), id);
const sources = (page) => page.evaluate(() => window.jupyterapp.shell.currentWidget.content.widgets.map((cell) => cell.model.sharedModel.getSource()));
const setSource = (page, index, text) => page.evaluate(([i, value]) => window.jupyterapp.shell.currentWidget.content.widgets[i].model.sharedModel.setSource(value), [index, text]);
const inCell = ([index, selector, count]) => document.querySelectorAll(".jp-Notebook .jp-Cell")[index].querySelectorAll(selector).length >= count;
const runCell = (page, index) => page.evaluate(async (i) => {
  const panel = window.jupyterapp.shell.currentWidget;
  await panel.sessionContext.ready;
  panel.content.activeCellIndex = i;
  await window.jupyterapp.commands.execute("notebook:run-cell");
}, index);
const outputOf = ([index, text]) => document.querySelectorAll(".jp-Notebook .jp-Cell")[index].querySelector(".jp-OutputArea")?.innerText.includes(text);

async function opened(browser) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 1000 } });
  page.setDefaultTimeout(PATIENCE_MS);
  await page.addLocatorHandler(page.locator(".jp-Dialog"), (dialog) => dialog.locator(".jp-mod-accept").first().click());
  await page.goto(`${url}/lab/tree/kernel.ipynb?reset`);
  await page.waitForFunction(() => window.jupyterapp?.restored);
  await page.evaluate(() => window.jupyterapp.restored);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
  await page.evaluate(() => window.jupyterapp.shell.currentWidget.context.ready);
  await page.addStyleTag({ content: ".Toastify { display: none; }" }); // Lab's news do not belong on a picture
  await page.evaluate(() => {
    if (document.querySelector(".jp-SideBar .lm-mod-current")) window.jupyterapp.commands.execute("application:toggle-left-area");
  });
  return page;
}

async function writeCells(page) {
  check("the commands have labels", (await page.evaluate(() => window.jupyterapp.commands.label("cuda-workbench:search-cell"))).startsWith("CUDA:"));
  await command(page, "cuda-workbench:search-cell");
  let texts = await sources(page);
  check("the magic is loaded above", texts.length === 2 && texts[0] === "%load_ext workbench", JSON.stringify(texts));
  check("the magic is on top of the cell", texts[1].startsWith("%%cuda_optimize --rounds 3\nimport torch"), texts[1]);
  await page.evaluate(() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; });
  await command(page, "cuda-workbench:search-cell");
  check("a second time nothing changes", JSON.stringify(await sources(page)) === JSON.stringify(texts));
  await command(page, "cuda-workbench:kernel-by-hand");
  texts = await sources(page);
  check("a kernel for the operation stands below", texts[2]?.startsWith("%%cuda_kernel double\n/* plan\ndef plan(x):"), texts[2]);
}

async function readAsCuda(page) {
  await until(page, "CUDA's words are marked", inCell, [2, ".wb-cuda-word", 2]);
  await until(page, "the plan is shaded", inCell, [2, ".wb-cuda-plan", 7]);
  // The words are marked at once; what the language's parser colours comes when it has got there.
  await until(page, "a C++ comment is one", () => {
    const lines = [...document.querySelectorAll(".jp-Notebook .jp-Cell")[2].querySelectorAll(".cm-line")];
    const line = lines.find((found) => found.textContent.startsWith("// One thread"));
    return line?.children.length === 1 && line.children[0].textContent === line.textContent;
  });
  check("the cell with the operation stays Python", await page.evaluate(() => document.querySelectorAll(".jp-Notebook .jp-Cell")[1].querySelector(".wb-cuda-word") === null));
  const [, , kernel] = await sources(page);
  await setSource(page, 2, kernel.replace("%%cuda_kernel double", "# %%cuda_kernel double"));
  await until(page, "without the magic it is no kernel", () => document.querySelectorAll(".jp-Notebook .jp-Cell")[2].querySelector(".wb-cuda-word") === null);
  await setSource(page, 2, kernel);
  await until(page, "with it, it is one again", inCell, [2, ".wb-cuda-word", 2]);
}

async function judge(page) {
  const [, search, kernel] = await sources(page);
  await setSource(page, 1, search.replace("--rounds 3", "--rounds 0 --device emulator"));
  await runCell(page, 0);
  await runCell(page, 1);
  await runCell(page, 2);
  await until(page, "a copy is not twice the input", outputOf, [2, "wrong numbers"]);
  await setSource(page, 2, kernel.replace("out[i] = x[i];", "out[i] = 2.0f * z[i];"));
  await runCell(page, 2);
  await until(page, "a mistake is told under its line", outputOf, [2, 'identifier "z" is undefined']);
  await page.locator(".jp-Notebook .jp-Cell").nth(2).screenshot({ path: `${shots}/kernel-in-a-cell.png` });
  await setSource(page, 2, kernel.replace("out[i] = x[i];", "out[i] = 2.0f * x[i];"));
  await runCell(page, 2);
  await until(page, "the right kernel is correct", outputOf, [2, "correct"]);
}

(async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: FLAGS });
  try {
    const page = await opened(browser);
    await writeCells(page);
    await readAsCuda(page);
    await judge(page);
  } finally {
    await browser.close();
  }
  process.exit(failed ? 1 : 0);
})();
