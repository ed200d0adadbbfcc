// The keyboard: one tab stop for the map and arrows inside it, j and k along the jobs, / to find, u up, comma,
// period and p through time, Esc back.

/** Listen; `act` has up(), time(by) and back(). */
export function listen(act) {
  document.addEventListener("keydown", (/** @type {Any} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape") {
      event.target.blur();
      act.back();
      return;
    }
    if (typing) return;
    const tile = event.target.closest(".stop");
    const moved =
      event.key === "/"
        ? document.getElementById("search")
        : event.key === "j" || event.key === "k"
          ? beside(".entry", event.key === "j" ? 1 : -1)
          : tile && event.key.startsWith("Arrow")
            ? next(tile, event.key)
            : null;
    if (event.key === "u") act.up();
    if (event.key === "," || event.key === ".") act.time(event.key === "." ? 1 : -1);
    if (event.key === "p") act.time(0);
    if (moved) {
      event.preventDefault();
      moved.focus();
      moved.scrollIntoView({ block: "nearest" });
    }
  });
}

/** Let the tab key reach the map: the lit tile, or the first one. */
export function oneStop(map) {
  const stops = [...map.querySelectorAll(".stop")];
  (stops.find((stop) => stop === document.activeElement || stop.closest(".lit")) ?? stops[0])?.setAttribute(
    "tabindex",
    "0",
  );
}

function beside(selector, step) {
  const all = [...document.querySelectorAll(selector)];
  const here = all.indexOf(document.activeElement);
  return all[here < 0 ? 0 : Math.min(all.length - 1, Math.max(0, here + step))];
}

/** The nearest domain or node in the direction of an arrow; sideways distance counts double. */
function next(tile, key) {
  const from = tile.getBoundingClientRect();
  const [right, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  /** @type {Any} */
  let best = null;
  let least = Infinity;
  for (const other of document.querySelectorAll(".stop")) {
    const to = other.getBoundingClientRect();
    const [x, y] = [
      to.left + to.width / 2 - from.left - from.width / 2,
      to.top + to.height / 2 - from.top - from.height / 2,
    ];
    const along = x * right + y * down,
      across = Math.abs(x * down) + Math.abs(y * right);
    if (along > 2 && along + 2 * across < least) {
      least = along + 2 * across;
      best = other;
    }
  }
  return best;
}
