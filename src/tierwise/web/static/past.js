// The moments of a run as far as the page knows them: asked for once, and then only what is new.

import { ask } from "./api.js";

const known = new Map(); // run -> the history with all moments

/** The history of a run, and whether it is another than before. */
export async function pastOf(run) {
  const last = known.get(run);
  const since = last?.moments.at(-1)?.id ?? 0;
  const query = new URLSearchParams({ ...(run ? { run } : {}), ...(since ? { since } : {}) });
  const { value, changed } = await ask(`/api/history${query.size ? `?${query}` : ""}`);
  if (last && !changed) return { value: last, changed: false };
  if (!since || value === null) {
    if (value) known.set(run, value);
    return { value, changed: true };
  }
  const moments = [...last.moments.filter((moment) => moment.id >= value.first), ...value.moments];
  // Another server, or one that has left many out: begin again.
  if (value.last < since || moments.length > 2 * value.moments.length + 2 * value.kept + 100) {
    known.delete(run);
    return pastOf(run);
  }
  known.set(run, { ...value, moments });
  return { value: known.get(run), changed: value.moments.length > 0 };
}

/** The number of the moment that an address asks for, or the one before it; the last one where it asks for none. */
export function shownMoment({ moments }, route) {
  const found = route.at ? moments.findLastIndex((moment) => moment.id <= Number(route.at)) : -1;
  return found < 0 ? (route.at && moments.length ? 0 : moments.length - 1) : found;
}

const LAST = /^(?:the )?last (?:(\d{1,6}) ?)?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)$/i;
const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };
const TIME = /^(?:(\d{4}-\d\d-\d\d)[ T])?(\d{1,2}):(\d\d)(?::(\d\d))?(?: ?Z| ?UTC)?$/i;

/** What is read as a time, as it is told where something else was written. */
export const EXAMPLE = "a time such as 14:20, 2026-11-16 14:20:05 (UTC) or last 10 minutes";

/** Whether a text is a time of day, with or without a date, or a while up to now. */
export const isTime = (text) => TIME.test(text.trim()) || LAST.test(text.trim());

/** The time up to which a history goes: a recording ends with its last moment, anything else goes on though nothing
 * changes. */
export function endOf({ moments, recorded }) {
  const newest = moments.at(-1).now;
  return recorded ? newest : Math.max(newest, Math.floor(Date.now() / 1000));
}

/** The first and the last second of a time as people write it: "14:20" is the minute of the last day that has it, and
 * "last 10 minutes" end now. */
export function spanOf(history, text) {
  const { moments, elapsed } = history;
  if (!moments.length) return null;
  const newest = endOf(history);
  const [, number, word] = LAST.exec(text.trim()) ?? [];
  if (word) {
    const lasts = Number(number ?? 1) * SECONDS[word[0].toLowerCase()];
    return { from: Math.max(0, Math.floor(newest - lasts)), to: Math.ceil(newest) };
  }
  const [, day, hours, minutes, seconds] = TIME.exec(text.trim()) ?? [];
  if (hours === undefined) return null;
  const midnight = elapsed ? 0 : day ? Date.parse(`${day}T00:00:00Z`) / 1000 : Math.floor(newest / 86400) * 86400;
  const time = midnight + Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds ?? 0);
  const from = !day && !elapsed && time > newest ? time - 86400 : time; // that of yesterday
  return { from, to: from + (seconds === undefined ? 59 : 0) };
}

/** The while that an address is about, where it is about one. */
export function during(route) {
  const [, from, to] = /^(\d+)-(\d+)$/.exec(route.during) ?? [];
  return from === undefined ? null : { from: Number(from), to: Number(to) };
}

/** The last moment that was not after a time; the first one where all were. */
export const momentAt = ({ moments }, time) => moments.findLast((moment) => moment.now < time + 1) ?? moments[0];
