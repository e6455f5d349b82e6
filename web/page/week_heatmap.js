// The mean utilisation of all GPUs for each hour of the week, by the browser's clock. An hour without
// data is hatched, not zero.
import { useQuery } from "./app_state.js";
import { QueryResult, Table } from "./components.js";
import { number, seconds_of } from "./format.js";
import { h } from "./view.js";

const kPollInterval = 600000;
const kHistoryHours = 30 * 24; // hours that history stores
const kPoints = 720; // an hour each in a month, less in a shorter time
const kDays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const kHours = [...Array(24).keys()];
const kLabelWidth = 28; // for the names of the days
const kBoxHeight = 18; // of an hour's box
const kLevels = ["no data", "under 20 %", "20 to 40", "40 to 60", "60 to 80", "80 to 100 %"];

const level_of = (mean) => (mean === null ? "unknown" : Math.min(4, Math.floor(mean / 20)));

// Returns seven lists, from Monday, of 24 means; null: no data for that hour.
export function weekly_means_of(series) {
  const sums = kDays.map(() => kHours.map(() => ({ total: 0, count: 0 })));
  for (const { first_ms, step_ms, mean } of series) {
    mean.forEach((value, index) => {
      if (value === null) return;
      const at = new Date(first_ms + index * step_ms);
      const sum = sums[(at.getDay() + 6) % 7][at.getHours()];
      sum.total += value;
      sum.count += 1;
    });
  }
  return sums.map((day) => day.map(({ total, count }) => (count ? total / count : null)));
}

function summary(week) {
  const hours = week.flatMap((day, index) => day.map((mean, hour) => ({ mean, name: `${kDays[index]} ${hour}:00` })));
  const known = hours.filter(({ mean }) => mean !== null).sort((a, b) => b.mean - a.mean);
  if (known.length === 0) return "No data for this period.";
  const text_of = ({ name, mean }) => `${name}, ${number(mean)} %`;
  return `Busiest ${text_of(known[0])}; least busy ${text_of(known.at(-1))}. Data for ${known.length} of 168 hours of the week.`;
}

function Heatmap({ week, caption }) {
  const width = 24 * 24 + kLabelWidth;
  return h`<svg class="week-heatmap" viewBox=${`0 0 ${width} ${7 * kBoxHeight + 16}`} role="img" aria-label=${caption}>
    <defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 6L6 0" /></pattern></defs>
    ${week.map((day, row) => h`<text x="0" y=${row * kBoxHeight + 13}>${kDays[row].slice(0, 2)}</text>
      ${day.map((mean, hour) => h`<rect class=${`heat-box h${level_of(mean)}`} x=${kLabelWidth + hour * 24} y=${row * kBoxHeight} width="23" height=${kBoxHeight - 1}>
        <title>${`${kDays[row]} ${hour}:00: ${mean === null ? "no data" : `${number(mean)} %`}`}</title></rect>`)}`)}
    ${[0, 6, 12, 18].map((hour) => h`<text x=${kLabelWidth + hour * 24} y=${7 * kBoxHeight + 13}>${`${hour}:00`}</text>`)}</svg>
  <p class="legend">${kLevels.map((text, index) => h`<span><svg width="16" height="16" aria-hidden="true"><rect
    class=${`heat-box h${index ? index - 1 : "unknown"}`} width="16" height="16" /></svg> ${text}</span> `)}</p>`;
}

export function WeekHeatmap({ t, as_table }) {
  const hours = Math.min(kHistoryHours, Math.ceil(seconds_of(t) / 3600));
  const history = useQuery("/api/gpu/history", { metrics: "util", since: `${hours}h`, points: Math.min(kPoints, hours * 12) }, kPollInterval);
  return h`<section><h2>Utilisation by hour of the week</h2>
    <${QueryResult} result=${history}>${({ series }) => {
      const week = weekly_means_of(series);
      const caption = summary(week);
      return h`<figure><figcaption>${caption}</figcaption>
        ${as_table
          ? h`<${Table} caption="Mean utilisation of all GPUs, percent, by hour of the day" rows=${kDays} key_of=${(day) => day}
              columns=${[["Day", (day) => day], ...kHours.map((hour) => [String(hour), (day) => number(week[kDays.indexOf(day)][hour]), "figure"])]} />`
          : h`<${Heatmap} week=${week} caption=${caption} />`}
        ${hours * 3600 < seconds_of(t) ? h`<p class="quiet">Last 30 days only: history is stored for 30 days.</p>` : null}</figure>`;
    }}<//></section>`;
}
