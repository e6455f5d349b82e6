// The use of the GPUs by user, day, GPU or lease, and its cost.
import { useQuery } from "./app_state.js";
import { QueryResult, Table, TableToggle, useTableKey } from "./components.js";
import { dash, gib, number, seconds_of } from "./format.js";
import { parameter, set_parameters } from "./url.js";
import { h } from "./view.js";
import { WeekHeatmap } from "./week_heatmap.js";

const kPollInterval = 60000;
const kPeriods = ["24h", "7d", "30d", "365d"];
const kGroupings = ["user", "day", "gpu", "lease"];

function Choice({ name, label, values, now }) {
  return h`<label>${label} <select name=${name} onChange=${(event) => set_parameters({ [name]: event.target.value })}>
    ${values.map((value) => h`<option value=${value} selected=${value === now}>${value}</option>`)}</select></label>`;
}

function Share({ part, whole }) {
  const percent = whole > 0 ? (100 * part) / whole : 0;
  return h`<meter min="0" max="100" value=${percent} aria-label=${`${Math.round(percent)} %`} /> ${Math.round(percent)} %`;
}

const kNoticeable = 0.01; // GPU-hours with unknown energy

// "about 3.10+": estimated, and a lower bound, because the energy of some time is unknown.
const kwh_of = ({ energy_kwh, energy_estimated, energy_unknown_gpu_hours }) =>
  energy_kwh === null
    ? dash
    : `${energy_estimated ? "about " : ""}${number(energy_kwh, 2)}${energy_unknown_gpu_hours >= kNoticeable ? "+" : ""}`;

export function Usage() {
  const t = seconds_of(parameter("t")) ? parameter("t") : "7d";
  const by = kGroupings.includes(parameter("by")) ? parameter("by") : "user";
  const [as_table, set_table] = useTableKey();
  const query = { since_s: seconds_of(t), by };
  const usage = useQuery("/api/gpu/usage", query, kPollInterval);
  return h`
    <form class="choices" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} name="t" label="In the last" values=${kPeriods} now=${t} />
      <${Choice} name="by" label="by" values=${kGroupings} now=${by} />
      <a href=${`/api/gpu/usage?${new URLSearchParams({ since_s: String(query.since_s), by, format: "csv" })}`} data-load download="usage.csv">CSV</a>
      <${TableToggle} as_table=${as_table} set=${set_table} />
    </form>
    <${QueryResult} result=${usage}>${(data) => {
      const rows = [...data.rows, { ...data.unleased, key: "without a lease" }];
      const hours = rows.reduce((total, row) => total + row.gpu_hours, 0);
      return h`<${Table} caption=${`GPU-hours and energy by ${by} since ${data.since.slice(0, 10)}`}
        empty="No usage in this period." rows=${rows} key_of=${(row) => row.key}
        columns=${[
          [by, (row) => row.key],
          ["GPU-hours", (row) => number(row.gpu_hours, 1), "figure"],
          ["Share", (row) => h`<${Share} part=${row.gpu_hours} whole=${hours} />`, "figure"],
          ["kWh", kwh_of, "figure"],
          ["Cost", (row) => (row.estimate?.cost == null ? dash : `about ${number(row.estimate.cost, 2)} ${row.estimate.currency}`), "figure"],
          ["CO₂", (row) => (row.estimate?.co2_g == null ? dash : `about ${number(row.estimate.co2_g / 1000, 2)} kg`), "figure"],
          ["Busy", (row) => (row.mean_utilization_percent === null ? dash : `${number(row.mean_utilization_percent)} %`), "figure"],
          ["Peak GiB", (row) => gib(row.peak_memory_bytes), "figure"],
          ["Leases", (row) => row.leases, "figure"],
        ]} />
        ${data.rows_left_out ? h`<p>${data.rows_left_out} more rows are in the CSV.</p>` : null}
        ${data.notes.map((note) => h`<p class="quiet">${note}</p>`)}
        ${rows.some((row) => row.estimate) ? h`<p class="quiet">Cost and CO₂ are estimates: energy times the configured price and grams of CO₂ per kWh.</p>` : null}`;
    }}<//>
    <${WeekHeatmap} t=${t} as_table=${as_table} />`;
}
