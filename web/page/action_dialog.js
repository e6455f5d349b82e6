// The dialog before every change: its description, the dry run of the daemon, the equivalent command.
// Nothing changes before the button is pressed; Esc cancels. The last change stays above the page,
// with a button that undoes it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ActionButton } from "./components.js";
import { h } from "./view.js";

const kDryRunDelay = 300;
let show = (_action) => {};
export const open_action_dialog = (action) => show(action);

// The one dialog of the page, and the last change.
export function ActionDialogHost() {
  const [action, set] = useState(null);
  const [last_change, set_last_change] = useState(null);
  show = set;
  return h`<div role="status" class="last">${last_change && h`<p>Applied: ${last_change.text}
      ${last_change.undo ? h`<span class="undo">To undo this: <${ActionButton} action=${{ ...last_change.undo, title: "Undo" }} /></span>` : null}
      <button type="button" onClick=${() => set_last_change(null)} aria-label="Dismiss">×</button></p>`}</div>
    ${action && h`<${ActionDialog} action=${action} close=${() => set(null)} on_applied=${set_last_change} />`}`;
}

function ActionDialog({ action, close, on_applied }) {
  const dialog = useRef(null);
  const fields = action.fields ?? [];
  const [values, set_values] = useState(Object.fromEntries(fields.map(({ name, value }) => [name, value])));
  const [plan, set_plan] = useState("");
  const [error, set_error] = useState("");
  const [busy, set_busy] = useState(false);
  // Not in an effect, which runs after the next frame: an earlier key belongs to the dialog, too.
  useLayoutEffect(() => dialog.current.showModal(), []);
  useEffect(() => {
    if (!action.dry_run) return undefined;
    let current = true;
    const timer = setTimeout(() => {
      action.dry_run(values).then(
        (text) => current && (set_plan(text), set_error("")),
        (failure) => current && (set_plan(""), set_error(failure.message)),
      );
    }, kDryRunDelay);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [JSON.stringify(values)]);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    set_busy(true);
    try {
      const result = await action.apply(values);
      on_applied({
        text: [action.title, action.about.split(":")[0], typeof result === "string" ? result : ""].filter(Boolean).join(", "),
        undo: action.undo?.(values, result),
      });
      close();
    } catch (failure) {
      set_error(failure.message);
      set_busy(false);
    }
  };
  return h`<dialog ref=${dialog} onClose=${close} aria-labelledby="action-title">
    <form onSubmit=${submit}>
      <h2 id="action-title">${action.title}</h2>
      <p>${action.about}</p>
      ${fields.map(({ name, label, pattern, optional }) => h`<p><label>${`${label} `}<input name=${name} value=${values[name]}
        pattern=${pattern} required=${!optional} autocomplete="off"
        onInput=${({ target }) => set_values({ ...values, [name]: target.value })} /></label></p>`)}
      ${plan ? h`<p class="plan">${plan}</p>` : null}
      <p><code>${action.line(values)}</code></p>
      ${action.proof !== undefined
        ? h`<p><label>${`enter ${action.proof} to confirm `}<input name="proof" pattern=${action.proof.replace(/[^\w]/g, "\\$&")} required autocomplete="off" /></label></p>`
        : null}
      <p class="bad" role="alert">${error}</p>
      <p><button type="submit" disabled=${busy}>Apply</button>${" "}
        <button type="button" onClick=${() => dialog.current.close()}>Cancel</button></p>
    </form></dialog>`;
}
