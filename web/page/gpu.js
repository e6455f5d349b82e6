// One GPU: its charts, processes, bottlenecks, alerts and settings in a period.
import { useMemo } from "preact/hooks";
import { cordon, limit_power, reset, restore } from "./actions.js";
import { can_act } from "./api.js";
import { app_state, lease_of, useAppState, useQuery } from "./app_state.js";
import { Chart } from "./chart.js";
import { ActionButton, Command, QueryResult, Table, TableToggle, useTableKey } from "./components.js";
import { day_and_clock, duration_of, gib, kilowatts, percent, seconds_of } from "./format.js";
import { marks_of, Timeline } from "./timeline.js";
import { go, parameter, set_parameters } from "./url.js";
import { h } from "./view.js";

const kPeriods = ["15m", "1h", "6h", "1d", "7d", "30d"];
const kPoints = 300;
const kMinPollInterval = 5000;
const kMaxPollInterval = 30000; // a bottleneck that begins is shown soon in a long period, too
const kMaxProcesses = 200;
const kMaxAlerts = 100;
const kMaxBottlenecks = 200;
const kGib = 2 ** 30;
const kNoBottleneck = new Set(["none", "not_known"]);

// metric as the history calls it: [title, unit, its number in that unit]
const kCharts = {
  utilization_gpu_percent: ["Busy", "%", (value) => value],
  power_draw_w: ["Power", "W", (value) => value],
  memory_used_bytes: ["Memory", "GiB", (value) => value / kGib],
  temperature_core_celsius: ["Temperature", "°C", (value) => value],
};

function points_of(series, in_unit) {
  const number = (value) => (value === null ? null : in_unit(value));
  return series.mean.map((mean, index) => ({
    t: series.first_ms + index * series.step_ms,
    min: number(series.min[index]),
    mean: number(mean),
    max: number(series.max[index]),
  }));
}

function summary_of(gpu, lease) {
  const facts = [
    gpu.name,
    gpu.pci_address,
    `${percent(gpu.utilization_gpu_percent)} busy`,
    `${kilowatts(gpu.power_draw_w)} of ${kilowatts(gpu.power_limit_w)}`,
    `${gib(gpu.memory_used_bytes)} of ${gib(gpu.memory_total_bytes)} GiB`,
    gpu.condition === "responsive" ? gpu.health : gpu.condition.replaceAll("_", " "),
    lease ? `leased to ${lease.user ?? lease.uid}` : app_state.queue && "not leased",
  ];
  return facts.filter(Boolean).join(", ");
}

// The time axis that charts and events share: from the first known moment to the end.
function axis_of({ since_ms, until_ms, series }) {
  const first = Math.min(...series.map(({ first_ms }) => first_ms));
  return { begin: Number.isFinite(first) ? Math.max(since_ms, first) : since_ms, end: until_ms };
}

function MetricChart({ series, axis, limit, zoom, as_table }) {
  const [title, unit, in_unit] = kCharts[series.metric];
  const points = useMemo(() => points_of(series, in_unit), [series]);
  return h`<${Chart} title=${title} unit=${unit} points=${points} axis=${axis} zoom=${zoom} as_table=${as_table}
    limit=${series.metric === "power_draw_w" ? limit : null}
    bound=${series.metric === "utilization_gpu_percent" ? 100 : series.bound ? in_unit(series.bound) : null} />`;
}

// The bottlenecks, with their shares of the time for which they are known.
function Bottlenecks({ result }) {
  return h`<section><h2>Bottlenecks</h2>
    <${QueryResult} result=${result}>${({ gpus, seconds }) => {
      const { shares, known_seconds } = gpus[0];
      const unknown = seconds - known_seconds;
      return h`<${Table} caption="Bottlenecks in this period" empty="No data for this period." rows=${shares} key_of=${({ cause }) => cause}
        columns=${[
          ["Cause", ({ cause }) => (cause === "none" ? "none" : cause.replaceAll("_", " "))],
          ["Share", (one) => percent(one.percent), "figure"],
          ["Time", (one) => duration_of(one.seconds), "figure"],
        ]} />${unknown > 60 && shares.length > 0 ? h`<p class="quiet">No data for another ${duration_of(unknown)}.</p>` : null}`;
    }}<//></section>`;
}

// The settings that users have requested.
function Settings({ gpu }) {
  const managed = useQuery(`/api/gpu/manage/${gpu.uuid}`, {}, kMinPollInterval);
  return h`<section><h2>Settings</h2>
    <${QueryResult} result=${managed}>${({ gpus, enabled }) => h`<${Table} caption="Settings requested by users"
      empty=${enabled ? "No settings have been changed." : "Settings cannot be changed: control is disabled."}
      rows=${gpus[0].settings.flatMap((one) => one.claims.map((claim) => ({ ...one, claim })))}
      key_of=${(one) => `${one.setting} ${one.claim.owner}`}
      columns=${[
        ["Setting", (one) => one.setting.replaceAll("_", " ")],
        ["Requested", (one) => one.claim.wanted.text],
        ["By", (one) => one.claim.owner],
        ["Until", (one) => (one.claim.until ? day_and_clock(Date.parse(one.claim.until)) : "restored")],
        ["Now", (one) => `${one.now?.text ?? one.why}, ${one.standing.replaceAll("_", " ")}`],
        ["Action", (one) => h`<${ActionButton} action=${restore(gpu, one.setting)} />`],
      ]} />`}<//></section>`;
}

export function Gpu({ id }) {
  const now = useAppState();
  const gpu = now.devices.find(({ index }) => index === id);
  const t = seconds_of(parameter("t")) ? parameter("t") : "15m";
  const [from, to] = [parameter("from"), parameter("to")];
  const range = from ? { since: from, until: to } : { since: t };
  const poll_interval = from ? 0 : Math.min(kMaxPollInterval, Math.max(kMinPollInterval, (seconds_of(t) * 1000) / kPoints));
  const history = useQuery("/api/gpu/history", { gpus: id, points: kPoints, ...range }, poll_interval);
  const process_spans = useQuery(`/api/gpu/processes`, { gpus: id, limit: kMaxProcesses, ...range }, from ? 0 : kMinPollInterval);
  const bottlenecks = useQuery("/api/gpu/bottlenecks", { gpus: id, limit: kMaxBottlenecks, ...range }, poll_interval);
  const alerts = useQuery("/api/gpu/alerts/history", { gpu: id, limit: kMaxAlerts }, kMinPollInterval);
  // Only for users who may change settings; for the others these marks are missing.
  const audit = useQuery(can_act() && "/api/gpu/manage/audit", { gpu: id, limit: kMaxAlerts }, kMinPollInterval);
  const marks = useMemo(
    () => marks_of({
      alerts: alerts.data?.alerts ?? [],
      bottlenecks: (bottlenecks.data?.gpus[0].spells ?? []).filter(({ bottleneck }) => !kNoBottleneck.has(bottleneck.cause)),
      processes: process_spans.data?.processes ?? [],
      changes: audit.data?.entries ?? [],
    }),
    [alerts.data, bottlenecks.data, process_spans.data, audit.data],
  );
  const [as_table, set_table] = useTableKey();
  const zoom = (begin, end) => set_parameters({ from: new Date(begin).toISOString(), to: new Date(end).toISOString(), t: "" });
  if (now.devices.length > 0 && !gpu) return h`<p class="bad" role="alert">GPU ${id} not found. <a href="/">All GPUs</a></p>`;
  const lease = gpu && lease_of(gpu.uuid);
  return h`
    ${gpu ? h`<p>${summary_of(gpu, lease)}</p>
      ${gpu.bottleneck_text ? h`<p class="sentence">${`GPU ${id} ${gpu.bottleneck_text}. ${gpu.bottleneck_advice ?? ""}`}</p>` : null}` : null}
    <form class="choices" onSubmit=${(event) => event.preventDefault()}>
      <label>The last <select onChange=${(event) => set_parameters({ t: event.target.value, from: "", to: "" })}>
        ${kPeriods.map((value) => h`<option value=${value} selected=${!from && value === t}>${value}</option>`)}</select></label>
      ${from ? h`<button type="button" onClick=${() => set_parameters({ from: "", to: "" })}>live</button>
        <strong class="past">${day_and_clock(Date.parse(from))} to ${day_and_clock(Date.parse(to))}</strong>` : null}
      <${TableToggle} as_table=${as_table} set=${set_table} />
      <button type="button" onClick=${() => go("/")}>all GPUs</button>
    </form>
    <${QueryResult} result=${history}>${(data) => {
      const { series, notes } = data;
      const axis = axis_of(data);
      return h`<${Timeline} marks=${marks} ...${axis} has_bottlenecks=${Boolean(bottlenecks.data)} has_settings=${Boolean(audit.data)} as_table=${as_table} />
      <div class="charts">${Object.keys(kCharts).map((metric) => {
          const found = series.find((one) => one.metric === metric);
          return found ? h`<${MetricChart} key=${metric} series=${found} axis=${axis} limit=${gpu?.power_limit_w} zoom=${zoom} as_table=${as_table} />` : null;
        })}</div>
      ${notes.map((note) => h`<p class="quiet">${note}</p>`)}`;
    }}<//>
    <section><h2>Processes</h2>
      <${QueryResult} result=${process_spans}>${({ processes, notes, complete }) => h`<${Table} empty="No processes recorded in this period."
        caption=${complete ? "Processes in this period" : `The newest ${kMaxProcesses} processes in this period; there are more`} rows=${processes} key_of=${(one) => `${one.pid} ${one.first_seen}`}
        columns=${[
          ["PID", (one) => one.pid, "figure"],
          ["User", (one) => one.user ?? one.uid ?? "–"],
          ["Command", (one) => one.command],
          ["Lease", (one) => one.lease ?? "none"],
          ["Peak GiB", (one) => gib(one.peak_memory_bytes), "figure"],
          ["First seen", (one) => day_and_clock(Date.parse(one.first_seen))],
          ["Duration", (one) => `${duration_of((Date.parse(one.last_seen) - Date.parse(one.first_seen)) / 1000)}${one.there ? ", running" : ""}`],
        ]} />${notes.map((note) => h`<p class="quiet">${note}</p>`)}`}<//></section>
    <${Bottlenecks} result=${bottlenecks} />
    <section><h2>Alerts</h2>
      <${QueryResult} result=${alerts}>${(data) => h`<${Table} caption="Alerts of this GPU" empty="No alerts recorded." rows=${data.alerts.slice(0, 20)}
        key_of=${(one) => one.number}
        columns=${[
          ["Fired", (one) => day_and_clock(Date.parse(one.fired))],
          ["Level", (one) => one.level],
          ["Message", (one) => one.message],
        ]} />`}<//></section>
    ${gpu ? h`<${Settings} gpu=${gpu} />` : null}
    <p>${gpu ? h`<${ActionButton} action=${limit_power(gpu)} /> <${ActionButton} action=${cordon(gpu)} /> <${ActionButton} action=${reset(gpu)} />` : null}
      <${Command} line=${`gpuyard history ${id} --metric power`} /></p>`;
}
