// News of the server, while a page is in view: pages that nobody looks at hold no connection. All windows of a browser
// share one stream where it has shared workers (stream.js); where it has none, each has its own.

const ALIVE = 20_000; // milliseconds between two signs that a window is still there

export class News {
  /** @param {Record<string, (event: { data: string }) => void>} hears what is done about each kind of event */
  constructor(hears) {
    this._hears = hears;
    this._address = "";
    this._shared = typeof SharedWorker !== "undefined" ? new SharedWorker("/static/stream.js") : null;
    /** @type {EventSource | null} */
    this._own = null;
    this._opened = false;
    if (!this._shared) return;
    this._shared.port.onmessage = ({ data }) => {
      if ("open" in data) this._opened = data.open;
      else this._hears[data.kind]?.(data);
    };
    this._shared.onerror = () => {
      // refused by the browser, by its settings: a stream of its own is as good for one window
      this._shared = null;
      if (this._address) this.hear(this._address);
    };
    setInterval(() => this._say(), ALIVE);
  }

  /** Whether what happens is heard of. */
  get open() {
    return this._shared ? this._opened : this._own?.readyState === EventSource.OPEN;
  }

  /** Hear of what happens at an address from now on. */
  hear(address) {
    this._address = address;
    if (this._shared) {
      this._say();
      return;
    }
    this._own?.close();
    this._own = new EventSource(address);
    for (const [kind, hears] of Object.entries(this._hears)) this._own.addEventListener(kind, (event) => hears(event));
  }

  /** Hear of nothing. */
  hush() {
    this._opened = false;
    this._address = "";
    this._say();
    this._own?.close();
    this._own = null;
  }

  _say() {
    this._shared?.port.postMessage({ address: this._address, kinds: Object.keys(this._hears) });
  }
}
