// Small parts that several views draw.
import { useState } from "preact/hooks";
import { h } from "./view.js";

// A command for the terminal, and a button that copies it: clicking teaches scripting.
export function Command({ line }) {
  const [copied, set] = useState(false);
  const copy = () => navigator.clipboard?.writeText(line).then(() => set(true), () => {});
  return h`<span class="command"><code>${line}</code>
    <button type="button" onClick=${copy} aria-label=${`Copy: ${line}`}>${copied ? "copied" : "copy"}</button></span>`;
}

// What a question was answered with: its error, a word while it is on its way, or its content.
export function Answer({ answer, children }) {
  if (answer.error) return h`<p class="bad" role="alert">${answer.error.message}</p>`;
  return answer.data ? children(answer.data) : h`<p class="quiet">asking…</p>`;
}

// columns: [title, cell(row), class]; a table that scrolls by itself where the screen is narrow.
export function Table({ caption, columns, rows, empty, key_of }) {
  if (rows.length === 0) return h`<p class="quiet">${empty}</p>`;
  return h`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption>${caption}</caption>
      <thead><tr>${columns.map(([title, , kind]) => h`<th scope="col" class=${kind}>${title}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => h`<tr key=${key_of(row)}>
        ${columns.map(([, cell, kind]) => h`<td class=${kind}>${cell(row)}</td>`)}</tr>`)}
      </tbody>
    </table></div>`;
}
