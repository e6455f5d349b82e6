// What is wrong, what is about to be, what was, and what nobody is told of.
import { acknowledge, silence, test_sink, unsilence } from "./acts.js";
import { day_and_clock, since, span } from "./format.js";
import { Answer, Do, Table } from "./parts.js";
import { h } from "./view.js";
import { useAnswer } from "./yard.js";

const kSoonest = 2000; // a rule that holds is nearer to firing each second
const kEvery = 10000;
const gpu_of = ({ gpu }) => (gpu ? h`<a href=${`/gpu/${gpu.index ?? gpu.uuid}`}>${gpu.index ?? gpu.uuid}</a>` : "");

function state_of(alert) {
  const words = [];
  if (alert.acknowledged) words.push(`looked after by ${alert.acknowledged.by ?? "somebody"}`);
  if (alert.silenced) words.push("silenced");
  if (alert.inhibited_by !== null) words.push("another alert covers it");
  if (alert.quarantines) words.push("keeps its GPU in quarantine");
  return words.join(", ") || "nobody looks after it yet";
}

function Firing({ alert }) {
  return h`<article class=${`alert ${alert.level}`}>
    <h3>${alert.number}. ${alert.message}</h3>
    <p>${alert.advice}</p>
    <p class="quiet">${alert.level}, rule ${alert.rule}, for ${since(alert.fired)}; ${state_of(alert)}</p>
    <p>${alert.acknowledged ? null : h`<${Do} action=${acknowledge(alert)} />`}
      <${Do} action=${silence(alert)} /></p>
  </article>`;
}

export function Alerts() {
  const { data: alerts } = useAnswer("/api/gpu/alerts", {}, kSoonest);
  const past = useAnswer("/api/gpu/alerts/history", { limit: 50 }, kEvery);
  const silences = useAnswer("/api/gpu/silences", {}, kEvery);
  const sinks = useAnswer("/api/gpu/sinks", {}, kEvery);
  return h`
    <section><h2>Firing</h2>
      ${!alerts ? h`<p class="quiet">asking…</p>` : alerts.alerts.length ? alerts.alerts.map((alert) => h`<${Firing} key=${alert.number} alert=${alert} />`) : h`<p class="quiet">${alerts.notes.length ? "No alert is firing." : "Nothing is wrong."}</p>`}
      ${alerts ? alerts.notes.map((note) => h`<p key=${note}>${note}</p>`) : null}
    </section>
    <section><h2>About to fire</h2>
      <${Table} caption="Rules that hold already" empty="Nothing is about to fire." rows=${alerts?.pending ?? []}
        key_of=${(one) => `${one.rule} ${one.gpu?.uuid}`}
        columns=${[
          ["GPU", gpu_of, "figure"],
          ["Rule", (one) => one.rule],
          ["Value", (one) => Math.round(one.value * 10) / 10, "figure"],
          ["Holds for", (one) => h`<progress max=${one.hold_s} value=${one.for_s} aria-label=${`${span(one.for_s)} of ${span(one.hold_s)}`} /> ${span(one.for_s)} of ${span(one.hold_s)}`],
        ]} /></section>
    <section><h2>Silences</h2>
      <${Answer} answer=${silences}>${(data) => h`<${Table} caption="What nobody is told of" empty="Nothing is silenced."
        rows=${data.silences} key_of=${(one) => one.id}
        columns=${[
          ["Rule", (one) => one.rule ?? "any"],
          ["GPU", (one) => one.gpu ?? "any"],
          ["By", (one) => one.by],
          ["Until", (one) => day_and_clock(Date.parse(one.until))],
          ["Why", (one) => one.comment],
          ["End it", (one) => h`<${Do} action=${unsilence(one)} />`],
        ]} />`}<//></section>
    <section><h2>Who is told</h2>
      <${Answer} answer=${sinks}>${(data) => h`<${Table} caption="Where alerts go" empty="Alerts go nowhere."
        rows=${data.sinks} key_of=${(one) => one.name}
        columns=${[
          ["Name", (one) => one.name],
          ["Kind", (one) => one.kind],
          ["Where", (one) => one.where],
          ["From level", (one) => one.min_level],
          ["Waiting", (one) => one.queued, "figure"],
          ["Delivered", (one) => one.delivered_total, "figure"],
          ["Given up", (one) => one.dead_letters_total, "figure"],
          ["State", (one) => one.failing_since ? h`<strong class="bad">fails for ${since(one.failing_since)}: ${one.last_error}</strong>` : "well"],
          ["Try it", (one) => h`<${Do} action=${test_sink(one)} />`],
        ]} />`}<//></section>
    <section><h2>What was</h2>
      <${Answer} answer=${past}>${(data) => h`<${Table} caption="Alerts that fired" empty="Nothing has fired yet."
        rows=${data.alerts} key_of=${(one) => one.number}
        columns=${[
          ["No.", (one) => one.number, "figure"],
          ["Fired", (one) => day_and_clock(Date.parse(one.fired))],
          ["For", (one) => one.resolved ? span((Date.parse(one.resolved) - Date.parse(one.fired)) / 1000) : "fires", "figure"],
          ["GPU", gpu_of, "figure"],
          ["Level", (one) => one.level],
          ["What", (one) => one.message],
        ]} />`}<//></section>`;
}
