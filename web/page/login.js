// Takes a token into the memory of this browser's tabs. Nothing is stored: the last tab that is
// closed forgets it.
import { useState } from "preact/hooks";
import { ask, has_token, take_token } from "./api.js";
import { Command } from "./parts.js";
import { go } from "./url.js";
import { h } from "./view.js";

export function Login() {
  const [said, say] = useState("");
  if (location.protocol !== "https:") {
    return h`<section><h2>Tokens need HTTPS</h2>
      <p>Over plain HTTP anybody on the way may read along, so the daemon takes no token there. It
      shows what everybody may see; each action is a command for the terminal.</p>
      <p>To switch HTTPS on: <${Command} line="gpuyard tls init" /></p></section>`;
  }
  const submit = async (event) => {
    event.preventDefault();
    take_token(String(new FormData(event.target).get("token")).trim());
    try {
      await ask("/api/gpu/leases");
      if (location.pathname === "/login") go("/");
    } catch (error) {
      take_token("");
      say(error.message);
    }
  };
  return h`<section>
    <p>The daemon tells nothing without a token. Make one on the machine:
      <${Command} line="gpuyard token create browser --scope read" /></p>
    <form onSubmit=${submit}>
      <label for="token">Token</label>
      <input id="token" name="token" type="password" autocomplete="off" required />
      <button type="submit">Log in</button>
      ${has_token() ? h`<button type="button" onClick=${() => take_token("")}>Forget it</button>` : null}
    </form>
    ${said ? h`<p class="bad" role="alert">${said}</p>` : null}</section>`;
}
