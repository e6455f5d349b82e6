// Firing and pending alerts, silences, notification sinks, and the history.
import { acknowledge, silence, test_sink, unsilence } from "./actions.js";
import { useQuery } from "./app_state.js";
import { ActionButton, QueryResult, Table } from "./components.js";
import { age_of, day_and_clock, duration_of } from "./format.js";
import { h } from "./view.js";

const kAlertPollInterval = 2000; // a pending alert comes nearer to firing each second
const kPollInterval = 10000;
const gpu_of = ({ gpu }) => (gpu ? h`<a href=${`/gpu/${gpu.index ?? gpu.uuid}`}>${gpu.index ?? gpu.uuid}</a>` : "");

function state_of(alert) {
  const states = [];
  if (alert.acknowledged) states.push(`acknowledged by ${alert.acknowledged.by ?? "an unknown user"}`);
  if (alert.silenced) states.push("silenced");
  if (alert.inhibited_by !== null) states.push("inhibited by another alert");
  if (alert.quarantines) states.push("its GPU is quarantined");
  return states.join(", ") || "not acknowledged";
}

function FiringAlert({ alert }) {
  return h`<article class=${`alert ${alert.level}`}>
    <h3>${alert.number}. ${alert.message}</h3>
    <p>${alert.advice}</p>
    <p class="quiet">${alert.level}, rule ${alert.rule}, for ${age_of(alert.fired)}; ${state_of(alert)}</p>
    <p>${alert.acknowledged ? null : h`<${ActionButton} action=${acknowledge(alert)} />`}
      <${ActionButton} action=${silence(alert)} /></p>
  </article>`;
}

export function Alerts() {
  const { data: alerts } = useQuery("/api/gpu/alerts", {}, kAlertPollInterval);
  const past = useQuery("/api/gpu/alerts/history", { limit: 50 }, kPollInterval);
  const silences = useQuery("/api/gpu/silences", {}, kPollInterval);
  const sinks = useQuery("/api/gpu/sinks", {}, kPollInterval);
  return h`
    <section><h2>Firing</h2>
      ${!alerts ? h`<p class="quiet">loading…</p>` : alerts.alerts.length ? alerts.alerts.map((alert) => h`<${FiringAlert} key=${alert.number} alert=${alert} />`) : h`<p class="quiet">No alerts are firing.</p>`}
      ${alerts ? alerts.notes.map((note) => h`<p key=${note}>${note}</p>`) : null}
    </section>
    <section><h2>Pending</h2>
      <${Table} caption="Rules whose condition is met" empty="No alerts are pending." rows=${alerts?.pending ?? []}
        key_of=${(one) => `${one.rule} ${one.gpu?.uuid}`}
        columns=${[
          ["GPU", gpu_of, "figure"],
          ["Rule", (one) => one.rule],
          ["Value", (one) => Math.round(one.value * 10) / 10, "figure"],
          ["Pending for", (one) => h`<progress max=${one.hold_s} value=${one.for_s} aria-label=${`${duration_of(one.for_s)} of ${duration_of(one.hold_s)}`} /> ${duration_of(one.for_s)} of ${duration_of(one.hold_s)}`],
        ]} /></section>
    <section><h2>Silences</h2>
      <${QueryResult} result=${silences}>${(data) => h`<${Table} caption="Muted rules and GPUs" empty="No active silences."
        rows=${data.silences} key_of=${(one) => one.id}
        columns=${[
          ["Rule", (one) => one.rule ?? "any"],
          ["GPU", (one) => one.gpu ?? "any"],
          ["By", (one) => one.by],
          ["Until", (one) => day_and_clock(Date.parse(one.until))],
          ["Comment", (one) => one.comment],
          ["Action", (one) => h`<${ActionButton} action=${unsilence(one)} />`],
        ]} />`}<//></section>
    <section><h2>Notification sinks</h2>
      <${QueryResult} result=${sinks}>${(data) => h`<${Table} caption="Where alerts are sent" empty="No sinks are configured."
        rows=${data.sinks} key_of=${(one) => one.name}
        columns=${[
          ["Name", (one) => one.name],
          ["Kind", (one) => one.kind],
          ["Target", (one) => one.where],
          ["Min level", (one) => one.min_level],
          ["Queued", (one) => one.queued, "figure"],
          ["Delivered", (one) => one.delivered_total, "figure"],
          ["Dropped", (one) => one.dead_letters_total, "figure"],
          ["State", (one) => one.closed ? h`<strong class="bad">closed: ${one.last_error}</strong>` : one.failing_since ? h`<strong class="bad">failing for ${age_of(one.failing_since)}: ${one.last_error}</strong>` : "ok"],
          ["Test", (one) => h`<${ActionButton} action=${test_sink(one)} />`],
        ]} />`}<//></section>
    <section><h2>History</h2>
      <${QueryResult} result=${past}>${(data) => h`<${Table} caption="Alerts that fired" empty="No alert has fired yet."
        rows=${data.alerts} key_of=${(one) => one.number}
        columns=${[
          ["No.", (one) => one.number, "figure"],
          ["Fired", (one) => day_and_clock(Date.parse(one.fired))],
          ["Duration", (one) => one.resolved ? duration_of((Date.parse(one.resolved) - Date.parse(one.fired)) / 1000) : "firing", "figure"],
          ["GPU", gpu_of, "figure"],
          ["Level", (one) => one.level],
          ["Message", (one) => one.message],
        ]} />`}<//></section>`;
}
