// The keys, for who presses "?".
import { h } from "./view.js";

const kKeys = [
  ["1 – 5", "the pages"],
  ["j k", "the next GPU, the one before"],
  ["Enter", "open the chosen GPU"],
  ["Esc", "back to the overview"],
  ["/", "filter: temp>80 & user==alice, or any word"],
  ["[ ]", "a minute back, a minute on; with Shift an hour"],
  ["L", "live again"],
  ["t", "a chart as a table"],
  ["s", "copy a link to this moment"],
];

export function Help({ close }) {
  return h`<section class="help" aria-label="Keys">
    <h2>Keys</h2>
    <dl>${kKeys.map(([key, does]) => h`<div><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>
    <button type="button" onClick=${close}>close</button></section>`;
}
