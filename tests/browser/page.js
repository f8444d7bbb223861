// A session's page by itself: node page.js SHOTS_FOLDER PAGE.html BRANCH ... Opens every tab of the branches in the light,
// the dark and the high-contrast theme and in a narrow window, and asks axe-core about what is shown. With
// WORKBENCH_SHOTS set it takes pictures too. Prints one line a finding.
const path = require("path");
const { pathToFileURL } = require("url");
const { chromium } = require("playwright-core");
const { source: axe } = require("axe-core");

const [, , shots, file, ...branches] = process.argv;
const TABS = ["Hypothesis", "Source", "Compile", "Numbers", "Speed", "Profile", "Conversation", "Receipt"];
// In high contrast the system chooses the colours: there is nothing to ask about them.
const WAYS = {
  light: { width: 1200, asked: {} },
  dark: { width: 1200, asked: { runOnly: ["color-contrast"] }, colorScheme: "dark" },
  contrast: { width: 1200, forcedColors: "active" },
  narrow: { width: 420 },
};
let failed = 0;

function check(name, good, seen = "") {
  if (!good) failed += 1;
  console.log(`${good ? "ok" : "FAILED"} ${name}${good ? "" : ` (${seen})`}`);
}

async function open(browser, { width, asked, ...media }) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, reducedMotion: "reduce", ...media });
  page.on("pageerror", (error) => check("no error on the page", false, error.message));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector(".wb-panel [role=treeitem]");
  await page.addScriptTag({ content: axe });
  return page;
}

// What axe-core finds wrong, with the first element that has it.
async function wrong(page, asked) {
  const found = await page.evaluate((how) => window.axe.run(document.querySelector(".wb-panel"), { resultTypes: ["violations"], ...how }), asked);
  return found.violations.map((one) => `${one.id} (${one.impact}): ${one.nodes[0].html.slice(0, 160)}`);
}

// Nothing but what scrolls by itself may be wider than the page.
const tooWide = () => {
  const { scrollWidth, clientWidth } = document.documentElement;
  return scrollWidth > clientWidth ? `${scrollWidth} of ${clientWidth} pixels` : "";
};

async function look(browser, name) {
  const way = WAYS[name];
  const page = await open(browser, way);
  const found = new Set();
  for (const branch of branches) {
    await page.locator(`.wb-panel [role=treeitem][data-branch="${branch}"]`).click();
    for (const tab of TABS) {
      await page.locator(".wb-panel").getByRole("tab", { name: tab, exact: true }).click();
      if (way.asked) for (const one of await wrong(page, way.asked)) found.add(`${branch} ${tab}: ${one}`);
      const wide = await page.evaluate(tooWide);
      if (wide) found.add(`${branch} ${tab}: wider than the page, ${wide}`);
      if (process.env.WORKBENCH_SHOTS) await page.locator(".wb-panel").screenshot({ path: `${shots}/${path.basename(file, ".html")}-${name}-${branch}-${tab.toLowerCase()}.png` });
    }
  }
  check(`${name}: nothing wrong on any tab of ${branches.join(", ")}`, found.size === 0, [...found].join("\n  "));
  await page.close();
}

// In a page that nobody answers rows are still walked by keys, and two branches compared.
async function byKeys(browser) {
  const page = await open(browser, WAYS.light);
  const chosen = () => page.locator(".wb-panel .row.chosen").getAttribute("data-branch");
  await page.locator(".wb-panel [role=treeitem][tabindex='0']").focus();
  await page.keyboard.press("Home");
  const first = await chosen();
  await page.keyboard.press("m");
  await page.keyboard.press("ArrowDown");
  check("arrows move through the tree", (await chosen()) !== first, first);
  await page.keyboard.press("m");
  await page.keyboard.press("c");
  await page.waitForSelector(".wb-panel table.compare");
  check("two branches are compared without a kernel", (await page.locator(".wb-panel table.compare thead th").count()) === 2);
  const found = await wrong(page, {});
  check("nothing is wrong with the comparison", found.length === 0, found.join("\n  "));
  const moving = await page.evaluate(() => document.getAnimations().length);
  check("nothing moves for those who ask for that", moving === 0, moving);
  await page.close();
}

async function main() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run"] });
  for (const name of Object.keys(WAYS)) await look(browser, name);
  await byKeys(browser);
  await browser.close();
  process.exit(failed ? 1 : 0);
}

main().catch((error) => { console.log(`FAILED ${error.stack}`); process.exit(1); });
