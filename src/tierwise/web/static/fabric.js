// The tree of domains out of its columns: children, the way up, amounts of the chosen resource.

export class Fabric {
  /** With `fragments` a domain is filled by what is fragmented in it instead of by what is in use. */
  constructor(columns, resource, fragments = false) {
    this.columns = columns;
    this.size = columns.name.length;
    const amounts = columns.amounts[resource];
    this.fragments = fragments;
    /** @type {Map<number, number> | null} */
    this.worst = null;
    this.amounts = fragments
      ? { ...amounts, used: amounts.fragmented ?? amounts.total.map(() => 0), new: null }
      : amounts;
    this.children = columns.name.map(() => []);
    columns.parent.forEach((parent, d) => {
      if (parent >= 0) this.children[parent].push(d);
    });
    this.tierNames = new Map(columns.tiers.map((entry) => [entry.tier, entry.name]));
  }

  find(name) {
    return this.columns.name.indexOf(name);
  }
  name(d) {
    return this.columns.name[d];
  }
  nodes(d) {
    return this.columns.nodes[d];
  }
  own(d) {
    return this.columns.own[d];
  }
  shut(d) {
    return this.columns.shut[d];
  }
  over(d) {
    return this.columns.over[d];
  }
  sum(what, d) {
    return this.amounts[what]?.[d] ?? 0;
  }

  /** What a full bar stands for: all that a domain has; of fragments, those of the worst domain of its tier. */
  scale(d) {
    if (!this.fragments) return this.sum("total", d);
    const worst = this.worst ?? new Map();
    if (!this.worst)
      this.columns.tier.forEach((tier, other) => {
        if (other) worst.set(tier, Math.max(worst.get(tier) ?? 0, this.sum("used", other)));
      });
    this.worst = worst;
    return worst.get(this.columns.tier[d]) || this.sum("total", d);
  }

  /** "tier 1 (rack)"; nothing for the cluster as a whole. */
  tier(d) {
    if (d <= 0) return "";
    const name = this.tierNames.get(this.columns.tier[d]);
    return `tier ${this.columns.tier[d]}${name ? ` (${name})` : ""}`;
  }

  /** The domains from the root down to d. */
  path(d) {
    const found = [];
    for (let at = d; at >= 0; at = this.columns.parent[at]) found.unshift(at);
    return found;
  }

  /** Whether everything below d is opened. */
  whole(d, open) {
    return !this.children[d].length || (open.has(d) && this.children[d].every((child) => this.whole(child, open)));
  }

  /** The domains to draw opened below d, so that no more than `most` tiles are left: whole levels, outermost first. */
  opened(d, most) {
    const open = new Set();
    let tiles = [d];
    for (;;) {
      const next = tiles.flatMap((at) => (this.children[at].length ? this.children[at] : [at]));
      if (next.length > most || !tiles.some((at) => this.children[at].length)) return open;
      tiles.filter((at) => this.children[at].length).forEach((at) => open.add(at));
      tiles = next;
    }
  }
}
