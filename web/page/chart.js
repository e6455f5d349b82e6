// A chart for eyes, keys and screen readers: a figure with a sentence, a cursor that the arrow keys
// move and a live region reads, and the same numbers as a table behind `t`.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock, day_and_clock, number } from "./format.js";
import { h } from "./view.js";

const kHeight = 160;
const kMaxRows = 60;
const kSpeechDelay = 300;

const kMinute = 60;
const kDay = 86400;
const dark = matchMedia("(prefers-color-scheme: dark)");

// Times of the axis, as short as the step allows.
const time_labels = (_, marks, __, ___, step) =>
  marks.map((t) => (step >= kDay ? day_and_clock(t * 1000).slice(5, 10) : step >= kMinute ? clock(t * 1000).slice(0, 5) : clock(t * 1000)));

const colour_of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Up to kMaxRows of the known values, evenly spaced.
function sample_points(points) {
  const known = points.filter(({ mean }) => mean !== null);
  const step = Math.max(1, Math.ceil(known.length / kMaxRows));
  return known.filter((_, index) => index % step === 0);
}

export function summary(title, unit, points) {
  const known = points.filter(({ mean }) => mean !== null);
  if (known.length === 0) return `${title}: no data for this period.`;
  const low = Math.min(...known.map(({ min }) => min));
  const high = Math.max(...known.map(({ max }) => max));
  return `${title} ${number(known.at(-1).mean)} ${unit}, between ${number(low)} and ${number(high)}.`;
}

// The columns for uPlot.
function data_of(points, limit) {
  const columns = [points.map(({ t }) => t / 1000), ...["max", "min", "mean"].map((of) => points.map((point) => point[of]))];
  return limit ? [...columns, points.map(() => limit)] : columns;
}

function plot_of(node, { unit, points, limit, bound, zoom, range }) {
  const line = colour_of("--line");
  const grid = { stroke: colour_of("--grid"), width: 1 };
  const axis = { stroke: colour_of("--quiet"), grid, ticks: grid };
  /** @type {import("uplot").Series[]} */
  const series = [
    {},
    { stroke: line, width: 0, points: { show: false } },
    { stroke: line, width: 0, points: { show: false } },
    { stroke: line, width: 1.5, points: { show: false } },
  ];
  if (limit) series.push({ stroke: colour_of("--cap"), width: 1.5, dash: [6, 4], points: { show: false } });
  /** @type {import("uplot").Options} */
  const options = {
    width: node.clientWidth,
    height: kHeight,
    legend: { show: false },
    padding: [null, 32, null, null], // the last time stands half beyond the axis
    cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: true, range }, y: { range: (_, _low, high) => [0, bound || Math.max(1, high * 1.1)] } },
    axes: [{ ...axis, values: time_labels }, { ...axis, size: 60, values: (_, marks) => marks.map((mark) => `${mark} ${unit}`) }],
    series,
    bands: [{ series: [1, 2], fill: colour_of("--band") }],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 5) zoom(plot.posToVal(left, "x") * 1000, plot.posToVal(left + width, "x") * 1000);
        },
      ],
    },
  };
  return new uPlot(options, data_of(points, limit), node);
}

// `axis`: the times, in ms, from its left to its right.
export function Chart({ title, unit, points, axis, limit, bound, zoom, as_table }) {
  const node = useRef(null);
  const plot = useRef(null);
  const latest_axis = useRef(axis);
  latest_axis.current = axis;
  const [index, set_index] = useState(-1);
  const [spoken, set_spoken] = useState("");
  useEffect(() => {
    if (as_table) return undefined;
    const range = () => [latest_axis.current.begin / 1000, latest_axis.current.end / 1000];
    const new_plot = plot_of(node.current, { unit, points, limit, bound, zoom, range });
    plot.current = new_plot;
    const box = node.current;
    const observer = new ResizeObserver(() => new_plot.setSize({ width: box.clientWidth, height: kHeight }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      new_plot.destroy();
      plot.current = null;
    };
  }, [Boolean(limit), bound, as_table, dark.matches]);
  useEffect(() => plot.current?.setData(data_of(points, limit)), [points, limit]);
  useEffect(() => {
    const point = points[index];
    if (!point) return undefined;
    plot.current?.setCursor({ left: plot.current.valToPos(point.t / 1000, "x"), top: 10 });
    const timer = setTimeout(() => set_spoken(`${day_and_clock(point.t)}: ${number(point.mean, 1)} ${unit}`), kSpeechDelay);
    return () => clearTimeout(timer);
  }, [index]);
  const on_keydown = (event) => {
    const last = points.length - 1;
    const from = index < 0 ? last : index;
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, PageUp: from - 10, PageDown: from + 10 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    set_index(Math.max(0, Math.min(last, next)));
  };
  const caption = summary(title, unit, points);
  return h`<figure>
    <figcaption>${caption}</figcaption>
    ${as_table
      ? h`<div class="scroll short" tabindex="0" role="region" aria-label=${`${title} as a table`}><table>
          <caption>${title}, ${unit}</caption>
          <thead><tr><th scope="col">Time</th><th scope="col">Min</th><th scope="col">Mean</th><th scope="col">Max</th></tr></thead>
          <tbody>${sample_points(points).map((point) => h`<tr key=${point.t}><td>${day_and_clock(point.t)}</td>
            <td class="figure">${number(point.min, 1)}</td><td class="figure">${number(point.mean, 1)}</td><td class="figure">${number(point.max, 1)}</td></tr>`)}</tbody></table></div>`
      : h`<div class="chart" ref=${node} tabindex="0" role="application" aria-label=${`${caption} Use the arrow keys to read single values.`} onKeyDown=${on_keydown} />`}
    <p class="spoken" aria-live="polite">${spoken}</p></figure>`;
}
