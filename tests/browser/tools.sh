#!/usr/bin/env bash
# Gets what the browser tests need: Chromium from Debian's packages when root asks, the rest from npm beside this
# file. Ends with status 1 and one loud line where the tests cannot run on this machine.
set -euo pipefail
cd "$(dirname "$0")"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cannot() { echo "BROWSER TESTS NOT RUN: $1" >&2; exit 1; }

has_driver() { NODE_PATH="${NODE_PATH:-}:$(npm root -g)" node -e 'require("playwright-core")' 2>/dev/null; }

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then cannot "node 20 and npm are not installed"; fi

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    cannot "chromium is not installed (Debian: apt-get install chromium)"
  fi
  echo "installing chromium for the browser tests"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >"$log" 2>&1 \
    || cannot "chromium could not be installed: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log")"
fi

# VS Code's widget manager names half of JupyterLab as what it needs; its one file needs none of it.
WIDGETS=@vscode/jupyter-ipywidgets8@1.0.9
if [ ! node_modules/complete -nt package-lock.json ]; then
  if npm ci --ignore-scripts --silent >"$log" 2>&1; then
    if packed=$(npm pack --silent --pack-destination node_modules "$WIDGETS" 2>"$log"); then
      mkdir -p node_modules/vscode-widgets
      tar xzf "node_modules/$packed" -C node_modules/vscode-widgets --strip-components 1
    else
      echo "$WIDGETS could not be had: the test with VS Code's widget manager is skipped" >&2
    fi
    touch node_modules/complete
  else
    has_driver || cannot "playwright-core could not be installed: $(tail -n 1 "$log")"
  fi
fi
