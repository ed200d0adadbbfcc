// What the scripts of the pages hand to each other. Answers of the server are typed as far as scripts rely on them
// being there; docs/reference tells their fields.

/** Whatever a server, an element or a caller may bring. */
type Any = any;

/** A state of the page, as its address tells it; what is not asked for is empty. */
interface Route {
  job: string;
  node: string;
  show: string;
  fits: string;
  fabric: string;
  domain: string;
  resource: string;
  filter: string;
  queue: string;
  verdict: string;
  reason: string;
  sort: string;
  order: string;
  at: string;
  during: string;
  run: string;
  changes: string;
  asking: string;
  table: string;
  find: string;
  by: string;
  tier: string;
}

/** A tree of domains, column by column. */
interface FabricColumns {
  title: string;
  name: string[];
  parent: number[];
  tier: number[];
  nodes: number[];
  own: number[];
  shut: number[];
  over: number[];
  tiers: { tier: number; name: string }[];
  setAside: string[];
  amounts: Record<string, Record<string, number[]>>;
}

/** One job in a list. */
interface Line {
  key: string;
  path: string;
  name: string;
  lone: boolean;
  queue: string;
  priority: number;
  created: number;
  phase: string;
  minimum: number;
  pods: number;
  new: number;
  leaving: number;
  kept: number;
  waiting: number;
  used: number[];
  asks: number[];
  hyperNodes: number[];
  verdict: string;
  reason: string;
  decisive: string;
  message: string;
  expected: string;
}

/** Some of the jobs. */
interface JobList {
  count: number;
  offset: number;
  reasons: { verdict: string; reason: string; jobs: number; pods?: number; since?: number; first?: Line[] }[];
  list: Line[];
}

/** What a page begins with. */
interface Board {
  now: number;
  made: number;
  mode: string;
  title: string;
  outcome: string;
  options: string;
  fault: string;
  whatIf: boolean;
  resources: string[];
  fabrics: FabricColumns[];
  jobs: Any;
  queues: Any[];
  services: Any;
  slots: Any[];
  account: Any;
  cycles: Any[];
  names: Record<string, [string, string]>;
  problems: Any[];
}

/** The last answers to what the address asks for. */
interface Answers {
  board: Board;
  history: Any;
  lists: { waiting: JobList; running: JobList };
  story: Any;
  node: Any;
  nodes: Any;
  changes: Any;
  happened: Any;
  life: Any;
  fits: Any;
  table: Any;
  overTime: Any;
}

/** What elements carry beside their attributes, so that a redraw can hand it on. */
interface Element {
  acts?: Record<string, (happened: Any) => void>;
  wired?: Set<string>;
  vars?: Record<string, string | number>;
}
