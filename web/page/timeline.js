// The events of a GPU on the time axis of its charts: alerts, bottlenecks, processes, settings. Like
// the charts they are for eyes, keys and screen readers: the arrow keys go from mark to mark, a live
// region reads each, the charts' cursors follow, and `t` shows a table.
import { useEffect, useState } from "preact/hooks";
import uPlot from "uplot";
import { Table } from "./components.js";
import { clock, day_and_clock, span } from "./format.js";
import { h } from "./view.js";

const kMostMarks = 200; // that are drawn
const kMostRows = 60; // of the table
const kHigh = 14; // of a row of marks, pixels
const kRows = ["Alerts", "Slow", "Processes", "Settings"];

const ms = (time) => (time ? Date.parse(time) : null);

// Alerts, bottlenecks, processes and settings as marks in the order of time; `end`: null while it lasts.
export function marks_of({ alerts, spells, processes, changes }) {
  const marks = [
    ...alerts.map((one) => ({
      row: 0, begin: ms(one.fired), end: ms(one.resolved), kind: one.level, text: `${one.level}: ${one.message}` })),
    ...spells.map(({ bottleneck, began, ended, on }) => ({
      row: 1, begin: ms(began), end: on ? null : ms(ended), kind: "slow", text: `bottleneck: ${bottleneck.brief}` })),
    ...processes.map((one) => ({
      row: 2, begin: ms(one.first_seen), end: one.there ? null : ms(one.last_seen), kind: one.lease ? "leased" : "unleased",
      text: `process ${one.pid} of ${one.user ?? one.uid ?? "unknown user"}${one.command ? `, ${one.command}` : ""}, ${one.lease ? `lease ${one.lease}` : "without a lease"}` })),
    ...changes.map((one) => ({
      row: 3, begin: ms(one.at), end: ms(one.at), kind: one.error ? "failed" : "done",
      text: `${one.by}: ${one.action}${one.error ? `, ${one.outcome}: ${one.error}` : one.before && one.after ? `, was ${one.before}` : ""}` })),
  ];
  return marks.toSorted((a, b) => a.begin - b.begin);
}

const lasted = ({ begin, end }) => (end === null ? "ongoing" : end > begin ? `for ${span((end - begin) / 1000)}` : "");
const said = (mark) => [day_and_clock(mark.begin), mark.text, lasted(mark)].filter(Boolean).join(", ");

// Leaves out the kinds of events that were not received.
function summary(marks, knows_slow, knows_settings) {
  const count = (row, one, many) => {
    const found = marks.filter((mark) => mark.row === row).length;
    return `${found || "no"} ${found === 1 ? one : many}`;
  };
  const parts = [count(0, "alert", "alerts"), count(2, "process", "processes")];
  if (knows_slow) parts.push(count(1, "bottleneck", "bottlenecks"));
  if (knows_settings) parts.push(count(3, "setting change", "setting changes"));
  return `In this period: ${parts.join(", ")}.`;
}

function Marks({ marks, chosen, choose, begin, end }) {
  const place = (t) => (100 * (Math.max(begin, Math.min(end, t)) - begin)) / (end - begin);
  const drawn = marks.slice(-kMostMarks);
  return h`<svg class="lane" aria-hidden="true" height=${kRows.length * kHigh}>
    ${drawn.map((mark) => {
      const [left, right] = [place(mark.begin), place(mark.end ?? end)];
      return h`<rect class=${`mark ${mark.kind} ${mark === chosen ? "chosen" : ""}`} x=${`${left}%`} y=${mark.row * kHigh + 1}
        style=${{ width: `max(4px, ${right - left}%)` }} height=${kHigh - 3} onClick=${() => choose(mark)}><title>${said(mark)}</title></rect>`;
    })}</svg>`;
}

export function Lane({ marks, begin, end, knows_slow, knows_settings, as_table }) {
  const within = marks.filter((mark) => mark.begin <= end && (mark.end ?? end) >= begin);
  const [words, choose_words] = useState(""); // of the chosen mark: each drawing creates new marks
  const place = within.findIndex((mark) => said(mark) === words);
  const choose = (mark) => choose_words(said(mark));
  useEffect(() => {
    if (place < 0) return;
    const t = Math.max(begin, within[place].begin) / 1000;
    const [plot] = uPlot.sync("time").plots; // it moves the others
    plot?.setCursor({ left: plot.valToPos(t, "x"), top: 10 });
  }, [words]);
  const press = (event) => {
    const last = within.length - 1;
    const from = place < 0 ? last + 1 : place;
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    choose(within[Math.max(0, Math.min(last, next))]);
  };
  const caption = summary(within, knows_slow, knows_settings);
  return h`<figure class="happened"><figcaption>${caption}</figcaption>
    ${as_table
      ? h`<${Table} caption=${within.length > kMostRows ? `The newest ${kMostRows} of ${within.length} events` : "Events"} empty="No events."
          rows=${within.slice(-kMostRows)} key_of=${said}
          columns=${[
            ["Time", (mark) => day_and_clock(mark.begin)],
            ["Duration", lasted, "figure"],
            ["Event", (mark) => mark.text],
          ]} />`
      : h`<div class="lanes" tabindex="0" role="application" aria-label=${`${caption} Use the arrow keys to read them one by one.`} onKeyDown=${press}>
          <p aria-hidden="true">${kRows.map((row) => h`<span>${row}</span>`)}</p>
          <${Marks} marks=${within} chosen=${within[place]} choose=${choose} begin=${begin} end=${end} />
          <p class="ends" aria-hidden="true"><span>${clock(begin)}</span><span>${clock(end)}</span></p></div>`}
    <p class="spoken" aria-live="polite">${words}</p></figure>`;
}
