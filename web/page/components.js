// Small components that several views draw.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { open_action_dialog } from "./action_dialog.js";
import { can_act } from "./api.js";
import { h } from "./view.js";

// A command for the terminal, and a button that copies it: clicking teaches scripting.
export function Command({ line }) {
  const [copied, set] = useState(false);
  const copy = () => navigator.clipboard?.writeText(line).then(() => set(true), () => {});
  return h`<span class="command"><code>${line}</code>
    <button type="button" onClick=${copy} aria-label=${`Copy: ${line}`}>${copied ? "copied" : "copy"}</button></span>`;
}

// An action: its command, and a button that opens its dialog if this browser can act.
export function ActionButton({ action }) {
  const { line } = action;
  const fields = Object.fromEntries((action.fields ?? []).map(({ name, value }) => [name, value]));
  return h`<span class="action">
    ${can_act() ? h`<button type="button" onClick=${() => open_action_dialog(action)}>${action.title}</button>` : null}
    <${Command} line=${line(fields)} /></span>`;
}

// The result of a query: its error, "loading…" until it comes, or its content.
export function QueryResult({ result, children }) {
  if (result.error) return h`<p class="bad" role="alert">${result.error.message}</p>`;
  return result.data ? children(result.data) : h`<p class="quiet">loading…</p>`;
}

// columns: [title, cell(row), class]; the table scrolls on a narrow screen.
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

// Calls the newest `on_keydown` with every key, from the first drawing on. It must not wait for an effect: preact
// runs effects after the next frame, and a key that comes before it would act on the previous state.
export function useKeydown(on_keydown) {
  const latest = useRef(on_keydown);
  latest.current = on_keydown;
  useLayoutEffect(() => {
    const call_latest = (event) => latest.current(event);
    addEventListener("keydown", call_latest);
    return () => removeEventListener("keydown", call_latest);
  }, []);
}

// Whether charts are shown as tables: the key `t`, and a button.
export function useTableKey() {
  const [as_table, set] = useState(false);
  useKeydown(({ key, target }) => key === "t" && !target.matches?.("input, select") && set((now) => !now));
  return [as_table, set];
}

export const TableToggle = ({ as_table, set }) =>
  h`<button type="button" aria-pressed=${as_table} onClick=${() => set(!as_table)}><kbd>t</kbd> show as table</button>`;
