// What the server says: an address is asked again with the mark of what is known, so that most answers are empty.

const known = new Map(); // address -> { mark, value }

/** When the server last looked at what it shows, in seconds since 1970 by the clock of this browser. */
export const server = { checked: 0 };

/** Note how many seconds ago the server has looked. */
export function looked(ago) {
  if (ago !== null && ago !== "") server.checked = Date.now() / 1000 - Number(ago);
}

/** The value at an address, and whether it is another than before; throws Error with a sentence for people. */
export async function ask(address) {
  const last = known.get(address);
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", headers: last ? { "If-None-Match": last.mark } : {} });
  } catch {
    throw new Error("the server does not answer; what is shown is what it last said");
  }
  looked(answer.headers.get("X-Checked"));
  if (answer.status === 304) return { value: last.value, changed: false };
  if (answer.status === 404) return { value: null, changed: true };
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the server says ${answer.status}`);
  const value = await answer.json();
  known.delete(address);
  known.set(address, { mark: answer.headers.get("ETag") ?? "", value });
  if (known.size > 50) known.delete(known.keys().next().value);
  return { value, changed: true };
}

/** The answer to a question that takes its time; `told` hears how far it is. Ends with the signal, there as here.
 *
 * @param {string} address
 * @param {AbortSignal} signal
 * @param {(message: Any) => void} told */
export async function follow(address, signal, told) {
  const answer = await fetch(address, { cache: "no-store", signal, headers: { Accept: "application/x-ndjson" } });
  if (!answer.ok || !answer.body) throw new Error((await answer.text()).trim() || `the server says ${answer.status}`);
  const reader = answer.body.getReader(),
    decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the server broke off");
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const message of lines.map((line) => JSON.parse(line))) {
      if (message.answer) return message.answer;
      if (message.fault !== undefined) throw new Error(message.fault);
      told(message);
    }
  }
}

/** Send a text, and get the answer; throws Error with a sentence for people. */
export async function send(address, text) {
  const answer = await fetch(address, {
    method: "POST",
    body: text,
    headers: { "Content-Type": "text/plain", "X-Tierwise": "1" },
  });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the server says ${answer.status}`);
  return answer.json();
}
