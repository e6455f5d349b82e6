// The events of a GPU on the time axis of its charts: alerts, bottlenecks, processes, settings. Like
// the charts they are for eyes, keys and screen readers: the arrow keys go from mark to mark, a live
// region reads each, the charts' cursors follow, and `t` shows a table.
import { useEffect, useState } from "preact/hooks";
import uPlot from "uplot";
import { Table } from "./components.js";
import { clock, day_and_clock, duration_of } from "./format.js";
import { h } from "./view.js";

const kMaxMarks = 200; // that are drawn
const kMaxRows = 60; // of the table
const kRowHeight = 14; // pixels
const kRows = ["Alerts", "Slow", "Processes", "Settings"];

const ms_of = (time) => (time ? Date.parse(time) : null);

// Alerts, bottlenecks, processes and settings as marks in the order of time; `end`: null while it lasts.
export function marks_of({ alerts, bottlenecks, processes, changes }) {
  const marks = [
    ...alerts.map((one) => ({
      row: 0, begin: ms_of(one.fired), end: ms_of(one.resolved), kind: one.level, text: `${one.level}: ${one.message}` })),
    ...bottlenecks.map(({ bottleneck, began, ended, on }) => ({
      row: 1, begin: ms_of(began), end: on ? null : ms_of(ended), kind: "slow", text: `bottleneck: ${bottleneck.brief}` })),
    ...processes.map((one) => ({
      row: 2, begin: ms_of(one.first_seen), end: one.there ? null : ms_of(one.last_seen), kind: one.lease ? "leased" : "unleased",
      text: `process ${one.pid} of ${one.user ?? one.uid ?? "unknown user"}${one.command ? `, ${one.command}` : ""}, ${one.lease ? `lease ${one.lease}` : "without a lease"}` })),
    ...changes.map((one) => ({
      row: 3, begin: ms_of(one.at), end: ms_of(one.at), kind: one.error ? "failed" : "done",
      text: `${one.by}: ${one.action}${one.error ? `, ${one.outcome}: ${one.error}` : one.before && one.after ? `, was ${one.before}` : ""}` })),
  ];
  return marks.toSorted((a, b) => a.begin - b.begin);
}

const duration_text_of = ({ begin, end }) => (end === null ? "ongoing" : end > begin ? `for ${duration_of((end - begin) / 1000)}` : "");
const text_of = (mark) => [day_and_clock(mark.begin), mark.text, duration_text_of(mark)].filter(Boolean).join(", ");

// Leaves out the kinds of events that were not received.
function summary(marks, has_bottlenecks, has_settings) {
  const count = (row, one, many) => {
    const found = marks.filter((mark) => mark.row === row).length;
    return `${found || "no"} ${found === 1 ? one : many}`;
  };
  const parts = [count(0, "alert", "alerts"), count(2, "process", "processes")];
  if (has_bottlenecks) parts.push(count(1, "bottleneck", "bottlenecks"));
  if (has_settings) parts.push(count(3, "setting change", "setting changes"));
  return `In this period: ${parts.join(", ")}.`;
}

function Marks({ marks, chosen, choose, begin, end }) {
  const percent_of = (t) => (100 * (Math.max(begin, Math.min(end, t)) - begin)) / (end - begin);
  const drawn = marks.slice(-kMaxMarks);
  return h`<svg class="timeline-marks" aria-hidden="true" height=${kRows.length * kRowHeight}>
    ${drawn.map((mark) => {
      const [left, right] = [percent_of(mark.begin), percent_of(mark.end ?? end)];
      return h`<rect class=${`mark ${mark.kind} ${mark === chosen ? "chosen" : ""}`} x=${`${left}%`} y=${mark.row * kRowHeight + 1}
        style=${{ width: `max(4px, ${right - left}%)` }} height=${kRowHeight - 3} onClick=${() => choose(mark)}><title>${text_of(mark)}</title></rect>`;
    })}</svg>`;
}

export function Timeline({ marks, begin, end, has_bottlenecks, has_settings, as_table }) {
  const visible_marks = marks.filter((mark) => mark.begin <= end && (mark.end ?? end) >= begin);
  const [chosen_text, set_chosen_text] = useState(""); // of the chosen mark: each drawing creates new marks
  const index = visible_marks.findIndex((mark) => text_of(mark) === chosen_text);
  const choose = (mark) => set_chosen_text(text_of(mark));
  useEffect(() => {
    if (index < 0) return;
    const t = Math.max(begin, visible_marks[index].begin) / 1000;
    const [plot] = uPlot.sync("time").plots; // it moves the others
    plot?.setCursor({ left: plot.valToPos(t, "x"), top: 10 });
  }, [chosen_text]);
  const on_keydown = (event) => {
    const last = visible_marks.length - 1;
    const from = index < 0 ? last + 1 : index;
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    choose(visible_marks[Math.max(0, Math.min(last, next))]);
  };
  const caption = summary(visible_marks, has_bottlenecks, has_settings);
  return h`<figure class="timeline"><figcaption>${caption}</figcaption>
    ${as_table
      ? h`<${Table} caption=${visible_marks.length > kMaxRows ? `The newest ${kMaxRows} of ${visible_marks.length} events` : "Events"} empty="No events."
          rows=${visible_marks.slice(-kMaxRows)} key_of=${text_of}
          columns=${[
            ["Time", (mark) => day_and_clock(mark.begin)],
            ["Duration", duration_text_of, "figure"],
            ["Event", (mark) => mark.text],
          ]} />`
      : h`<div class="timeline-rows" tabindex="0" role="application" aria-label=${`${caption} Use the arrow keys to read them one by one.`} onKeyDown=${on_keydown}>
          <p aria-hidden="true">${kRows.map((row) => h`<span>${row}</span>`)}</p>
          <${Marks} marks=${visible_marks} chosen=${visible_marks[index]} choose=${choose} begin=${begin} end=${end} />
          <p class="ends" aria-hidden="true"><span>${clock(begin)}</span><span>${clock(end)}</span></p></div>`}
    <p class="spoken" aria-live="polite">${chosen_text}</p></figure>`;
}
