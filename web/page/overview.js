// All GPUs: one row each, the bottleneck of the chosen one, and the events. The same view shows a
// moment of the past.
import { cordon, limit_power } from "./actions.js";
import { lease_of, useAppState, useQuery } from "./app_state.js";
import { ActionButton, Command, useKeydown } from "./components.js";
import { filter_of, FilterError } from "./filter.js";
import { age_of, clock, dash, day_and_clock, gib, number, percent } from "./format.js";
import { Spark } from "./spark.js";
import { go, parameter, set_parameters } from "./url.js";
import { h } from "./view.js";

const kManyGpus = 16; // more of them get cells of colour in place of lines
const kMinute = 60000;
const kHour = 60 * kMinute;

// The fields of a row, for the filter and the order.
const kFields = ["gpu", "model", "util", "mem", "temp", "power", "clock", "user", "why", "health"];

const share_of = (gpu) =>
  gpu.memory_used_bytes === null || !gpu.memory_total_bytes ? null : (100 * gpu.memory_used_bytes) / gpu.memory_total_bytes;

// The holder is only known for the present.
function row_of(gpu, past) {
  const lease = past ? null : lease_of(gpu.uuid);
  const lost = gpu.condition !== "responsive";
  return {
    device: gpu,
    lease,
    lost,
    gpu: gpu.index,
    model: gpu.name,
    util: gpu.utilization_gpu_percent,
    mem: share_of(gpu),
    temp: gpu.temperature_core_c,
    power: gpu.power_draw_w,
    clock: gpu.clock_sm_mhz,
    user: lease?.user ?? "",
    why: gpu.bottleneck_brief ?? (lost ? gpu.why || gpu.condition.replaceAll("_", " ") : past ? "unknown" : ""),
    health: gpu.health ?? "",
  };
}

// Converts a GPU of a snapshot to the form of the stream's columns.
function columns_device_of(device) {
  const { bottleneck, readings } = device;
  return { ...device, ...readings, temperature_core_c: readings.temperature_core_celsius,
    bottleneck_brief: bottleneck?.brief, bottleneck_text: bottleneck?.text, bottleneck_advice: bottleneck?.advice };
}

function HeatCell({ value, max, text }) {
  const level = value === null || value === undefined ? "unknown" : Math.min(4, Math.floor((5 * value) / max));
  return h`<span class=${`heat h${level}`}>${text}</span>`;
}

/** @returns {any[]} each: [field, title, cell(row), class] */
const columns = (many, past, lines) => [
  ["gpu", "GPU", (row) => h`<a href=${`/gpu/${row.gpu}`}>${row.gpu}</a>`, "figure"],
  ["model", "Model", (row) => row.model.replace(/^NVIDIA /, ""), "model"],
  ["util", "Busy", (row) => (many ? h`<${HeatCell} value=${row.util} max=${100} text=${percent(row.util)} />` : percent(row.util)), "figure"],
  ...(many || past ? [] : [[null, "Last minute", (row) => h`<${Spark} values=${lines.get(row.device.uuid) ?? []} />`, "wide"]]),
  ["mem", "Memory", (row) => {
    const text = h`${gib(row.device.memory_used_bytes)}<span class="wide">${` of ${gib(row.device.memory_total_bytes)} GiB`}</span>`;
    return many ? h`<${HeatCell} value=${row.mem} max=${100} text=${text} />` : text;
  }, "figure"],
  ["temp", "°C", (row) => (many ? h`<${HeatCell} value=${row.temp} max=${100} text=${number(row.temp)} />` : number(row.temp)), "figure"],
  ["power", "Power", (row) => h`${number(row.power)}<span class="wide">${` of ${number(row.device.power_limit_w)} W`}</span>`, "figure"],
  ...(past ? [] : [
    ["user", "User", (row) => (row.lease ? h`<a href="/queue">${row.user || row.lease.uid}</a>` : dash)],
    [null, "Held", (row) => age_of(row.lease?.granted), "figure"],
  ]),
  ["why", "Bottleneck", (row) => (row.lost ? h`<strong class="bad">${row.why}</strong>` : row.why)],
];

function sort_rows(rows, sort) {
  const field = sort.replace("-", "");
  if (!kFields.includes(field)) return rows;
  const direction = sort.startsWith("-") ? -1 : 1;
  const unknown = (value) => value === null || value === undefined || value === "";
  return rows.toSorted((a, b) => {
    const [one, other] = [a[field], b[field]];
    if (unknown(one) || unknown(other)) return Number(unknown(one)) - Number(unknown(other)); // unknown ones last, in both orders
    return direction * (one < other ? -1 : one > other ? 1 : 0);
  });
}

function Heading({ field, title, kind, sort }) {
  if (!field) return h`<th scope="col" class=${kind}>${title}</th>`;
  const down = sort === `-${field}`;
  const up = sort === field;
  const next = up ? `-${field}` : down ? "" : field;
  return h`<th scope="col" class=${kind} aria-sort=${up ? "ascending" : down ? "descending" : undefined}>
    <button type="button" class="sort" onClick=${() => set_parameters({ sort: next }, { replace: true })}>
      ${title}${up ? " ▲" : down ? " ▼" : ""}</button></th>`;
}

function Filter({ error }) {
  const text = parameter("f");
  // At once: a redraw in between would restore the old text.
  const on_input = ({ target }) => set_parameters({ f: target.value }, { replace: true });
  return h`<p class="filter"><label for="filter">Filter</label>
    <input id="filter" type="search" value=${text} onInput=${on_input} placeholder="temp>80 & user==alice"
      aria-invalid=${error ? "true" : "false"} aria-describedby="filter-error" autocomplete="off" />
    <span id="filter-error" class="bad" role="status">${error}</span></p>`;
}

// `at`: from the address, perhaps "10m"; `moment`: the time that the daemon made of it.
function Moment({ at, moment }) {
  const move = (ms) => {
    // A complete time needs no reply, which may still be on its way when the next key comes.
    const time = /^\d{4}-\d\d-\d\dT/.test(at) ? at : moment;
    if (at && !time) return;
    const from = at ? Date.parse(time) : Date.now();
    set_parameters({ at: new Date(from + ms).toISOString() }, { replace: Boolean(at) });
  };
  useKeydown((event) => {
    if (event.target.matches?.("input, select, textarea") || event.ctrlKey || event.metaKey) return;
    const step = { "[": -kMinute, "]": kMinute, "{": -kHour, "}": kHour }[event.key];
    if (step && (at || step < 0)) move(step);
  });
  return h`<p class="moment">
    <button type="button" onClick=${() => move(-kHour)}><kbd aria-hidden="true">${"{"}</kbd> 1 h back</button>
    <button type="button" onClick=${() => move(-kMinute)}><kbd aria-hidden="true">[</kbd> 1 min back</button>
    ${at ? h`<button type="button" onClick=${() => move(kMinute)}><kbd aria-hidden="true">]</kbd> 1 min forward</button>
      <button type="button" onClick=${() => move(kHour)}><kbd aria-hidden="true">${"}"}</kbd> 1 h forward</button>
      <button type="button" onClick=${() => set_parameters({ at: "" })}>live</button>
      <strong class="past">${moment ? `${day_and_clock(Date.parse(moment))}, ${age_of(moment)} ago` : at}</strong>` : null}</p>`;
}

function Sentence({ row, past }) {
  if (!row) return null;
  const { device } = row;
  return h`<section class="sentence" aria-live="polite">
    <h2>GPU ${row.gpu}: ${device.name}</h2>
    <p>${device.bottleneck_text ? `GPU ${row.gpu} ${device.bottleneck_text}. ${device.bottleneck_advice ?? ""}` : `Bottleneck: ${row.why || "unknown"}.`}</p>
    ${past ? null : h`<p><${Command} line=${`gpuyard devices ${row.gpu}`} />
      ${row.lost ? null : h`<${ActionButton} action=${limit_power(device)} />`} <${ActionButton} action=${cordon(device)} /></p>`}</section>`;
}

function Events({ events }) {
  return h`<section><h2>Events</h2>
    ${events.length === 0 ? h`<p class="quiet">No events since this page was opened.</p>` : null}
    <ol class="events">${events.slice(0, 12).map((event) => h`<li class=${event.level}><time>${clock(event.at)}</time> ${event.text}</li>`)}</ol></section>`;
}

// The chosen row is a GPU, not a position: sorting the list again does not change it.
function useSelectedGpu(rows) {
  const chosen = parameter("gpu");
  useKeydown(({ key, target, ctrlKey, metaKey }) => {
    if (target.matches?.("input, select, textarea, button, a") || ctrlKey || metaKey) return;
    const index = rows.findIndex(({ gpu }) => String(gpu) === chosen);
    const next = { j: index + 1, ArrowDown: index + 1, k: index - 1, ArrowUp: index - 1 }[key];
    if (next !== undefined && rows[Math.max(0, next)]) {
      set_parameters({ gpu: String(rows[Math.max(0, next)].gpu) }, { replace: true });
    }
    if (key === "Enter" && index >= 0) go(`/gpu/${chosen}`);
  });
  return chosen;
}

export function Overview() {
  const now = useAppState();
  const at = parameter("at");
  const past = useQuery(at && "/api/gpu/snapshot", { at });
  const devices = at ? (past.data?.devices ?? []).map(columns_device_of) : now.devices;
  let matches = () => true;
  let error = "";
  try {
    matches = filter_of(parameter("f"), kFields);
  } catch (found) {
    if (!(found instanceof FilterError)) throw found;
    error = found.message;
  }
  const sort = parameter("sort");
  const rows = sort_rows(devices.map((gpu) => row_of(gpu, Boolean(at))).filter(matches), sort);
  const chosen = useSelectedGpu(rows);
  const many = devices.length > kManyGpus;
  const shown = columns(many, Boolean(at), now.lines);
  if (now.driver_error && !at) {
    return h`<p class="bad" role="alert">${now.driver_error}</p><p>For details, run <${Command} line="gpuyard doctor" /></p>`;
  }
  return h`
    <div class=${at ? "tools in-past" : "tools"}>
      <${Filter} error=${error} />
      <${Moment} at=${at} moment=${past.data?.taken_at} />
    </div>
    ${past.error ? h`<p class="bad" role="alert">${past.error.message}</p>` : null}
    <div class="scroll" tabindex="0" role="region" aria-label="GPUs">
      <table class=${many ? "gpus many" : "gpus"}>
        <thead><tr>${shown.map(([field, title, , kind]) => h`<${Heading} field=${field} title=${title} kind=${kind} sort=${sort} />`)}</tr></thead>
        <tbody>${rows.map((row) => h`<tr key=${row.device.uuid} aria-current=${String(row.gpu) === chosen ? "true" : undefined}
            onClick=${() => set_parameters({ gpu: String(row.gpu) }, { replace: true })}>
          ${shown.map(([, , cell, kind]) => h`<td class=${kind}>${cell(row)}</td>`)}</tr>`)}</tbody>
      </table></div>
    ${rows.length === 0 && devices.length > 0 ? h`<p class="quiet">No GPU matches the filter.</p>` : null}
    ${devices.length === 0 && !at ? h`<p class="quiet">The driver reports no GPUs on this machine.</p>` : null}
    <${Sentence} row=${rows.find(({ gpu }) => String(gpu) === chosen) ?? rows[0]} past=${Boolean(at)} />
    ${at ? null : h`<${Events} events=${now.events} />`}`;
}
