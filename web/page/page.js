// The page: the frame around every view, the keys, and which view an address stands for.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ActionDialogHost } from "./action_dialog.js";
import { Alerts } from "./alerts.js";
import { app_state, is_stale, start, useAppState } from "./app_state.js";
import { Audit } from "./audit.js";
import { useKeydown } from "./components.js";
import { kilowatts, models_of, money, seconds_of, sum_of } from "./format.js";
import { Gpu } from "./gpu.js";
import { Help } from "./help.js";
import { Login } from "./login.js";
import { Overview } from "./overview.js";
import { Queue } from "./queue.js";
import { go, parameter, set_parameters, useAddress } from "./url.js";
import { Usage } from "./usage.js";
import { h } from "./view.js";

const kViews = [
  ["/", "Overview", Overview],
  ["/queue", "Queue", Queue],
  ["/alerts", "Alerts", Alerts],
  ["/usage", "Usage", Usage],
  ["/audit", "Audit", Audit],
];

const host = document.body.dataset.host || location.hostname;  // empty without read access

function ConnectionStatus() {
  const now = useAppState();
  const at = parameter("at");
  if (at) return h`<strong class="past">PAST</strong>`;
  if (now.link === "away") return h`<strong class="bad" role="status">disconnected: ${now.why}</strong>`;
  if (now.link === "refused") return h`<strong class="bad" role="status">token required</strong>`;
  if (is_stale()) return h`<strong class="bad" role="status">stale data</strong>`;
  return h`<span class="good">${now.link === "live" ? "live" : "connecting"}</span>`;
}

function Strip() {
  const { devices, leases, queue, alerts, today, simulated } = useAppState();
  if (parameter("at")) return null; // these are of now
  // A + marks a sum in which the value of some GPU is unknown.
  const sum = (of) => sum_of(devices.map(of), kilowatts);
  const held = new Set(leases.filter(({ state }) => state !== "waiting").flatMap(({ gpus }) => gpus.map(({ uuid }) => uuid)));
  const cells = [
    ["GPUs", models_of(devices.map(({ name }) => name))],
    ["Power", `${sum((gpu) => gpu.power_draw_w)} of ${sum((gpu) => gpu.power_limit_w)}`],
    ["Today", today ? [today.kwh, money(today.estimate)].filter(Boolean).join(", ") : "–"],
    ["Leased", queue ? held.size : "–"],
    ["Withheld", queue ? queue.withheld.length : "–"],
    ["Waiting", queue ? queue.pending_claimers : "–"],
    ["Alerts", alerts ? alerts.alerts.length : "–"],
  ];
  return h`<dl class="strip" aria-label="Machine summary">
    ${cells.map(([name, value]) => h`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    ${simulated ? h`<div><dt>Simulated</dt><dd>no real GPUs</dd></div>` : null}
  </dl>`;
}

function view_of(path) {
  const gpu = /^\/gpu\/(\d+)$/.exec(path);
  if (gpu) return [Gpu, `GPU ${gpu[1]}`, Number(gpu[1])];
  if (path === "/login") return [Login, "Log in"];
  const [, name, view] = kViews.find(([at]) => at === path) ?? kViews[0];
  return [view, name];
}

// Keys do what they do in `gpuyard top`.
function useKeys(toggle_help) {
  useKeydown((event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches?.("input, select, textarea")) {
      if (key === "Escape") target.blur();
      return;
    }
    const index = "12345".indexOf(key);
    if (index >= 0) return go(kViews[index][0]);
    const handler = {
      "/": () => document.getElementById("filter")?.focus(),
      "?": toggle_help,
      s: copy_link,
      L: () => set_parameters({ at: "" }),
      Escape: () => location.pathname.startsWith("/gpu/") && go("/"),
    }[key];
    if (!handler) return;
    event.preventDefault();
    handler();
  });
}

// A link to this moment: it shows the same tomorrow.
async function copy_link() {
  const moment = new URL(location.href);
  const now = app_state.t || Date.now();
  if (location.pathname === "/" && !parameter("at")) {
    moment.searchParams.set("at", new Date(now).toISOString());
  }
  if (location.pathname.startsWith("/gpu/") && !parameter("from")) {
    moment.searchParams.set("from", new Date(now - (seconds_of(parameter("t")) ?? 900) * 1000).toISOString());
    moment.searchParams.set("to", new Date(now).toISOString());
    moment.searchParams.delete("t");
  }
  await navigator.clipboard?.writeText(moment.href).catch(() => {});
}

function Page() {
  const path = useAddress();
  const { link } = useAppState();
  const [help, set_help] = useState(false);
  useKeys(() => set_help((shown) => !shown));
  const [View, name, argument] = view_of(path);
  useEffect(() => {
    document.title = `${name} - ${host} - gpuyard`;
  }, [name]);
  return h`
    <a class="skip" href="#main">Skip to content</a>
    <header>
      <p class="host"><a href="/">${host}</a> <${ConnectionStatus} /></p>
      <nav aria-label="Pages">
        ${kViews.map(([at, title], index) => h`<a href=${at} aria-current=${at === path ? "page" : undefined}><kbd>${index + 1}</kbd> ${title}</a>`)}
        <a href="/docs" data-load>API</a>
        <button type="button" onClick=${() => set_help(!help)} aria-expanded=${help}><kbd>?</kbd> Keys</button>
      </nav>
      <${Strip} />
    </header>
    ${help ? h`<${Help} close=${() => set_help(false)} />` : null}
    <${ActionDialogHost} />
    <main id="main" tabindex="-1">
      <h1>${name}</h1>
      ${link === "refused" && View !== Login ? h`<${Login} />` : h`<${View} key=${path} id=${argument} />`}
    </main>
    <footer>gpuyard ${document.body.dataset.version}${" - "}<a href="/metrics" data-load>metrics</a>${" - "}<a
      href="/page/licences.txt" data-load>licences</a></footer>`;
}

start();
const root = document.querySelector("#page");
// The server's own table stays until there is something to put in its place.
let shown = false;
function show() {
  if (shown) return;
  shown = true;
  root.replaceChildren();
  render(h`<${Page} />`, root);
}
const kShowTimeout = 500;
const show_timer = setInterval(() => {
  if (app_state.link === "starting") return;
  clearInterval(show_timer);
  show();
}, 10);
setTimeout(show, kShowTimeout);
