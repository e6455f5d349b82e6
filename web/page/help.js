// The list of keys; "?" shows it.
import { h } from "./view.js";

const kKeys = [
  ["1 – 5", "open a page"],
  ["j k", "next or previous GPU"],
  ["Enter", "open the selected GPU"],
  ["Esc", "back to the overview"],
  ["/", "filter, e.g. temp>80 & user==alice, or any word"],
  ["[ ]", "one minute back or forward; with Shift, one hour"],
  ["L", "return to live"],
  ["t", "show charts as tables"],
  ["s", "copy a link to this moment"],
];

export function Help({ close }) {
  return h`<section class="help" aria-label="Keys">
    <h2>Keys</h2>
    <dl>${kKeys.map(([key, does]) => h`<div><dt><kbd>${key}</kbd></dt><dd>${does}</dd></div>`)}</dl>
    <button type="button" onClick=${close}>close</button></section>`;
}
