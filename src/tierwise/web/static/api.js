// What the server says: an address is asked again with the mark of what is known, so that most answers are empty.

const known = new Map(); // address -> { mark, value }

/** The value at an address, and whether it is another than before; throws Error with a sentence for people. */
export async function ask(address) {
  const last = known.get(address);
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", headers: last ? { "If-None-Match": last.mark } : {} });
  } catch {
    throw new Error("the server does not answer; what is shown is what it last said");
  }
  if (answer.status === 304) return { value: last.value, changed: false };
  if (answer.status === 404) return { value: null, changed: true };
  if (!answer.ok) throw new Error((await answer.text()).trim() || `the server says ${answer.status}`);
  const value = await answer.json();
  known.delete(address);
  known.set(address, { mark: answer.headers.get("ETag") ?? "", value });
  if (known.size > 50) known.delete(known.keys().next().value);
  return { value, changed: true };
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
