// One stream of events for all windows of a browser, which has six connections to one host: a wall of pages would
// otherwise hold them all. Runs as a shared worker; a page says what it wants to hear of (see news.js).

/** @type {Any} */
const worker = self;
const SILENT = 60_000; // milliseconds after which a window that says nothing is gone
const streams = new Map(); // address -> { source, ports: port -> when it last said that it is there }

worker.onconnect = ({ ports: [port] }) => {
  let at = "";
  port.onmessage = ({ data: { address, kinds } }) => {
    if (address !== at) leave(at, port);
    at = address;
    if (address) join(address, kinds, port);
  };
};

function join(address, kinds, port) {
  let stream = streams.get(address);
  if (!stream || stream.source.readyState === EventSource.CLOSED) {
    stream = { source: new EventSource(address), ports: stream?.ports ?? new Map() };
    streams.set(address, stream);
    const { source, ports } = stream;
    const tell = (message) => [...ports.keys()].forEach((to) => to.postMessage(message));
    for (const kind of kinds) source.addEventListener(kind, ({ data }) => tell({ kind, data }));
    source.onopen = () => tell({ open: true });
    source.onerror = () => tell({ open: false });
  }
  if (!stream.ports.has(port)) port.postMessage({ open: stream.source.readyState === EventSource.OPEN });
  stream.ports.set(port, Date.now());
}

function leave(address, port) {
  const stream = streams.get(address);
  stream?.ports.delete(port);
  if (!stream || stream.ports.size) return;
  stream.source.close();
  streams.delete(address);
}

setInterval(() => {
  for (const [address, { ports }] of streams)
    for (const [port, heard] of ports) if (Date.now() - heard > SILENT) leave(address, port);
}, SILENT / 2);
