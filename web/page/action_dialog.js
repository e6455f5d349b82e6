// The plan before every change: its description, the dry run of the daemon, the equivalent command.
// Nothing changes before the button is pressed; Esc cancels. The last change stays above the page,
// with a button that undoes it.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Do } from "./components.js";
import { h } from "./view.js";

const kPause = 300;
let show = (_action) => {};
export const open_plan = (action) => show(action);

// The one dialog of the page, and the last change.
export function Plans() {
  const [action, set] = useState(null);
  const [done, set_done] = useState(null);
  show = set;
  return h`<div role="status" class="last">${done && h`<p>Applied: ${done.words}
      ${done.undo ? h`<span class="undo">To undo this: <${Do} action=${{ ...done.undo, title: "Undo" }} /></span>` : null}
      <button type="button" onClick=${() => set_done(null)} aria-label="Dismiss">×</button></p>`}</div>
    ${action && h`<${Plan} action=${action} close=${() => set(null)} finish=${set_done} />`}`;
}

function Plan({ action, close, finish }) {
  const dialog = useRef(null);
  const fields = action.fields ?? [];
  const [values, set_values] = useState(Object.fromEntries(fields.map(({ name, value }) => [name, value])));
  const [planned, set_planned] = useState("");
  const [error, set_error] = useState("");
  const [busy, set_busy] = useState(false);
  // Not in an effect, which runs after the next frame: an earlier key belongs to the dialog, too.
  useLayoutEffect(() => dialog.current.showModal(), []);
  useEffect(() => {
    if (!action.plan) return undefined;
    let wanted = true;
    const timer = setTimeout(() => {
      action.plan(values).then(
        (text) => wanted && (set_planned(text), set_error("")),
        (why) => wanted && (set_planned(""), set_error(why.message)),
      );
    }, kPause);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [JSON.stringify(values)]);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    set_busy(true);
    try {
      const answer = await action.act(values);
      finish({
        words: [action.title, action.about.split(":")[0], typeof answer === "string" ? answer : ""].filter(Boolean).join(", "),
        undo: action.undo?.(values, answer),
      });
      close();
    } catch (why) {
      set_error(why.message);
      set_busy(false);
    }
  };
  return h`<dialog ref=${dialog} onClose=${close} aria-labelledby="plan-title">
    <form onSubmit=${submit}>
      <h2 id="plan-title">${action.title}</h2>
      <p>${action.about}</p>
      ${fields.map(({ name, label, pattern, optional }) => h`<p><label>${`${label} `}<input name=${name} value=${values[name]}
        pattern=${pattern} required=${!optional} autocomplete="off"
        onInput=${({ target }) => set_values({ ...values, [name]: target.value })} /></label></p>`)}
      ${planned ? h`<p class="planned">${planned}</p>` : null}
      <p><code>${action.line(values)}</code></p>
      ${action.proof !== undefined
        ? h`<p><label>${`enter ${action.proof} to confirm `}<input name="proof" pattern=${action.proof.replace(/[^\w]/g, "\\$&")} required autocomplete="off" /></label></p>`
        : null}
      <p class="bad" role="alert">${error}</p>
      <p><button type="submit" disabled=${busy}>Apply</button>${" "}
        <button type="button" onClick=${() => dialog.current.close()}>Cancel</button></p>
    </form></dialog>`;
}
