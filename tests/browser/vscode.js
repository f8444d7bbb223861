// The panel of a saved notebook in VS Code's widget manager: node vscode.js STATE.json IPYWIDGETS.js REQUIRE.js ANYWIDGET.js SHOTS
// STATE holds the notebook's widget state and the outputs of its cell. The page has VS Code's dark colours and
// require.js, as its notebook renderer has; there is no kernel behind it. Prints one line a finding.
const fs = require("fs");
const http = require("http");
const { chromium } = require("playwright-core");

const [, , state, widgets, require_js, anywidget, shots] = process.argv;
const COLOURS = "--vscode-editor-background:#1e1e1e;--vscode-editor-foreground:#cccccc;--vscode-editorWidget-background:#252526;--vscode-textLink-foreground:#3794ff";
const FILES = { "/ipywidgets.js": widgets, "/require.js": require_js, "/anywidget.js": anywidget, "/state.json": state };
const PAGE = `<!doctype html><body class="vscode-dark" style="${COLOURS}"><div id="out"></div><script src="/require.js"></script></body>`;
let failed = 0;

function check(name, good, seen = "") {
  if (!good) failed += 1;
  console.log(`${good ? "ok" : "FAILED"} ${name}${good ? "" : ` (${seen})`}`);
}

async function show() {
  const signal = { connect() {}, disconnect() {} };
  const kernel = { statusChanged: signal, connectionStatusChanged: signal, iopubMessage: signal, name: "python3", status: "idle", id: "k", clientId: "c", username: "u",
    registerCommTarget() {}, requestCommInfo: async () => ({ content: { comms: {} } }) };
  const loader = { widgetsRegisteredInRequireJs: new Set(), successHandler() {}, errorHandler() {}, loadWidgetScript: async (name) => requirejs.config({ paths: { [name]: `/${name}` } }) };
  const { activate } = await import("/ipywidgets.js");
  activate();
  window.vscIPyWidgets8.load();
  const place = document.getElementById("out");
  const manager = new window.vscIPyWidgets.WidgetManager(kernel, place, loader, () => {}, undefined);
  const saved = await (await fetch("/state.json")).json();
  await manager.set_state(saved.state);
  const { model_id: id } = saved.outputs.map((output) => output.data?.["application/vnd.jupyter.widget-view+json"]).find(Boolean);
  await manager.display_view(undefined, await manager.create_view(await manager.get_model(id)), { node: place });
}

async function main() {
  const server = http.createServer((request, response) => {
    const file = FILES[request.url];
    response.setHeader("content-type", !file ? "text/html" : file.endsWith("json") ? "application/json" : "text/javascript");
    response.end(file ? fs.readFileSync(file) : PAGE);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
  const page = await browser.newPage({ viewport: { width: 1100, height: 800 } });
  page.on("pageerror", (error) => check("no error on the page", false, error.message));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.evaluate(show);
  await page.waitForSelector(".wb-panel [role=treeitem]");
  check("every branch has a row", (await page.locator(".wb-panel [role=treeitem]").count()) >= 10);
  await page.locator('.wb-panel [data-branch="b3"]').click();
  check("a row can be chosen", (await page.locator(".wb-panel .row.chosen").getAttribute("data-branch")) === "b3");
  const background = await page.locator(".wb-panel").evaluate((node) => getComputedStyle(node).backgroundColor);
  check("the panel has the colours of VS Code's theme", background === "rgb(30, 30, 30)", background);
  await page.screenshot({ path: `${shots}/vscode.png` });
  await browser.close();
  server.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => { console.log(`FAILED ${error.stack}`); process.exit(1); });
