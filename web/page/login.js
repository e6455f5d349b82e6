// The form for a token. It is only in the memory of the tabs, and lost with the last one.
import { useState } from "preact/hooks";
import { fetch_json, has_token, store_token } from "./api.js";
import { Command } from "./components.js";
import { go } from "./url.js";
import { h } from "./view.js";

export function Login() {
  const [error, set_error] = useState("");
  if (location.protocol !== "https:") {
    return h`<section><h2>Tokens need HTTPS</h2>
      <p>Plain HTTP can be read in transit, so the daemon does not accept tokens over it. This page
      shows what everyone may see; actions are shown as commands for the terminal.</p>
      <p>To enable HTTPS: <${Command} line="gpuyard tls init" /></p></section>`;
  }
  const submit = async (event) => {
    event.preventDefault();
    store_token(String(new FormData(event.target).get("token")).trim());
    try {
      await fetch_json("/api/gpu/leases");
      if (location.pathname === "/login") go("/");
    } catch (error) {
      store_token("");
      set_error(error.message);
    }
  };
  return h`<section>
    <p>The daemon requires a token. Create one on the machine:
      <${Command} line="gpuyard token create browser --scope read" /></p>
    <form onSubmit=${submit}>
      <label for="token">Token</label>
      <input id="token" name="token" type="password" autocomplete="off" required />
      <button type="submit">Log in</button>
      ${has_token() ? h`<button type="button" onClick=${() => store_token("")}>Log out</button>` : null}
    </form>
    ${error ? h`<p class="bad" role="alert">${error}</p>` : null}</section>`;
}
