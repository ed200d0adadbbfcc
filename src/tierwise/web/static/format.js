// Amounts, ages and names as people read them. Amounts come in the smallest unit: thousandths of a cpu, bytes, devices.

const BYTES = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** An amount at a glance: three digits or so. */
export function short(resource, amount) {
  if (resource === "cpu") return digits(amount / 1000);
  if (!/memory|storage/.test(resource)) return count(amount);
  let value = amount,
    power = 0;
  while (value >= 1024 && power < BYTES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return digits(value) + BYTES[power];
}

function digits(value) {
  return value >= 100 || Number.isInteger(value) ? count(Math.round(value)) : value.toFixed(1).replace(/\.0$/, "");
}

const THOUSANDS = new Intl.NumberFormat("en-US"); // made once: it takes long

/** A number with thousands apart. */
export function count(number) {
  return Math.abs(number) >= 1000 ? THOUSANDS.format(number) : String(number);
}

/** A sentence of the server with the thousands of its numbers apart. */
export const thousands = (text) => text.replace(/\b\d{4,}\b/g, count);

/** "1 pod", "2 pods". */
export function many(number, word, plural = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : plural}`;
}

/** A code as words: "NotEnoughResources" is "not enough resources". */
export function words(code) {
  return code.replace(
    /[A-Z]+(?![a-z])|[A-Z]/g,
    (found, at) => `${at ? " " : ""}${found.length > 1 ? found : found.toLowerCase()}`,
  );
}

/** The first names, and how many more there are. */
export function few(names, most = 3) {
  return names.slice(0, most).join(", ") + (names.length > most ? ` and ${count(names.length - most)} more` : "");
}

/** The last part of a resource's name: gpu. */
export function unit(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

export function percent(share) {
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}

/** "3 d", "5 h", "12 min": how long ago; nothing where nobody knows. */
export function age(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds >= 172800) return `${Math.floor(seconds / 86400)} d`;
  if (seconds >= 7200) return `${Math.floor(seconds / 3600)} h`;
  return seconds >= 120 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds)} s`;
}

let fromStart = false;

/** Whether times are seconds since the beginning of a simulation, which has no date. */
export function countFromStart(is) {
  fromStart = is;
}

export function clock(epoch) {
  if (fromStart) return `day ${Math.floor(epoch / 86400) + 1}, ${new Date(epoch * 1000).toISOString().slice(11, 19)}`;
  return new Date(epoch * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC";
}

export function seconds(value) {
  if (value >= 1) return `${value.toFixed(1)} s`;
  return value >= 0.0095 ? `${Math.round(value * 1000)} ms` : `${(value * 1000).toFixed(1)} ms`;
}

/** What names have in common up to a mark: "rack-" of racks; nothing where one of them is no more than that. */
export function prefix(names) {
  let [common = ""] = names;
  for (const name of names) while (!name.startsWith(common)) common = common.slice(0, -1);
  const cut = common.slice(0, Math.max(...["-", "_", ".", "/"].map((mark) => common.lastIndexOf(mark))) + 1);
  return names.length > 1 && !names.includes(cut) ? cut : "";
}

/** A time below an axis with a step between ticks; the day is told with the first tick and where it changes. */
export function tick(epoch, step, before) {
  const text = new Date(epoch * 1000).toISOString();
  const day = fromStart ? `day ${Math.floor(epoch / 86400) + 1}` : text.slice(5, 10);
  const time = text.slice(11, step < 60 ? 19 : 16);
  if (step >= 86400) return day;
  return before !== undefined && Math.floor(before / 86400) === Math.floor(epoch / 86400) ? time : `${day} ${time}`;
}
