// The tags of the page: h`<b>${text}</b>`. Only the browser checks the markup. Values are always text,
// never markup.
import { h as element } from "preact";
import htm from "htm";

export const h = htm.bind(element);
