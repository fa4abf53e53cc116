// NDNts as producer, consumer and manager, for interop/run: a small client over its libraries, since
// NDNts' own command line tools are published only together with the rest of its repository.
//
//   node ndnts.mjs put NAME FILE       serves FILE below NAME with RDR metadata until SIGTERM
//   node ndnts.mjs cat NAME FILE       finds the newest version by RDR, fetches it into FILE
//   node ndnts.mjs cat-unverified NAME FILE   the same without looking at the segments' signatures
//   node ndnts.mjs mgmt STEP PORT      one dataset, or a command and its opposite; a JSON line an answer
//
// Connects to NDN_CLIENT_TRANSPORT: unix:///path, tcp4://host:port, udp4://host:port or ws://host:port.
// NDNts' packages are found in $NDNTS (a folder with node_modules), set by interop/run.

import { createRequire } from "node:module";
import { readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import path from "node:path";

const require = createRequire(path.join(process.env.NDNTS ?? process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

const { TcpTransport, UdpTransport, UnixTransport } = await load("@ndn/node-transport");
const { WsTransport } = await load("@ndn/ws-transport");
const { BufferChunkSource, fetch, serve } = await load("@ndn/segmented-object");
const { Metadata, retrieveMetadata, serveMetadata } = await load("@ndn/rdr");
const { Version } = await load("@ndn/naming-convention2");
const { Name, digestSigning } = await load("@ndn/packet");
const { produce } = await load("@ndn/endpoint");
const nfdmgmt = await load("@ndn/nfdmgmt");

async function connect() {
  const uri = new URL(process.env.NDN_CLIENT_TRANSPORT);
  const port = Number(uri.port);
  const scheme = uri.protocol.replace(/[46]?:$/, "");
  switch (scheme) {
    case "unix": return UnixTransport.createFace({}, uri.pathname);
    case "tcp": return TcpTransport.createFace({}, uri.hostname, port);
    case "udp": return UdpTransport.createFace({}, { host: uri.hostname, port });
    case "ws": return WsTransport.createFace({}, uri.href);
    default: throw new Error(`transport ${uri}`);
  }
}

// Commands go to /localhost whatever the transport: every forwarder here listens on loopback, but NDNts itself takes
// only Unix sockets for local and would ask /localhop.
const local = { prefix: nfdmgmt.localhostPrefix };

async function put(name, file) {
  const content = await readFile(file);
  const versioned = new Name(name).append(Version, Date.now());
  nfdmgmt.enableNfdPrefixReg(face, local);
  const options = { announcement: new Name(name) };
  serve(versioned, new BufferChunkSource(content, { chunkSize: 8000 }), {
    signer: digestSigning,
    pOpts: options,
  });
  serveMetadata(new Metadata(versioned), { signer: digestSigning, pOpts: options });
  console.error(`serving ${versioned}`);
  await new Promise((resolve) => { process.once("SIGTERM", resolve); });
}

async function cat(name, file, verifier) {
  const metadata = await retrieveMetadata(new Name(name), { retx: 5, verifier });
  const content = await fetch(metadata.name, { verifier, retxLimit: 8 });
  await writeFile(file, content);
  console.error(`${metadata.name}: ${content.length} bytes`);
}

function report(what, result) {
  const text = JSON.stringify({ what, ...result }, (_key, value) =>
    typeof value === "bigint" ? Number(value) : value instanceof Name ? `${value}` : value);
  console.log(text);
}

async function command(verb, parameters) {
  const response = await nfdmgmt.invoke(verb, parameters, local);
  const body = response.statusCode === 200 ? nfdmgmt.ControlParameters.decodeFromResponseBody(response) : {};
  report(verb, { code: response.statusCode, text: response.statusText, body: body.toString() });
  if (response.statusCode !== 200) {
    process.exitCode = 1;
  }
  return body;
}

async function dataset(type) {
  const rows = await nfdmgmt.list(type, local);
  report(type.datasetName, { rows: rows.length });
  return rows;
}

function expect(condition, what) {
  if (!condition) {
    console.error(`not so: ${what}`);
    process.exitCode = 1;
  }
}

// One step of the management protocol; the parameter is an unused UDP port of loopback.
async function mgmt(step, port) {
  const name = new Name("/interop/managed");
  const uri = `udp4://127.0.0.1:${port}`;
  const steps = {
    async status() {
      expect((await nfdmgmt.list("status/general", [], generalStatus, local)).length > 0, "a status");
    },
    async faces() {
      expect((await dataset(nfdmgmt.FaceStatus)).some((row) => row.localUri.startsWith("unix:")),
        "faces/list has this Unix face");
    },
    async routes() {
      await dataset(nfdmgmt.RibEntry);
    },
    async cs() {
      expect((await dataset(nfdmgmt.CsInfo)).length === 1, "cs/info has one row");
    },
    async strategies() {
      expect((await dataset(nfdmgmt.StrategyChoice)).some((row) => row.name.length === 0), "/ has a strategy");
    },
    async face() {
      const { faceId } = await command("faces/create", { uri });
      const found = await dataset(nfdmgmt.FaceQuery({ uri }));
      expect(found.length === 1 && found[0].faceId === faceId, "faces/query finds the new face");
      await command("faces/destroy", { faceId });
      expect((await dataset(nfdmgmt.FaceQuery({ uri }))).length === 0, "faces/query finds it no more");
    },
    async route() {
      const { faceId } = await command("faces/create", { uri });
      const routes = async () => (await dataset(nfdmgmt.RibEntry)).find((row) => row.name.equals(name))?.route;
      await command("rib/register", { name, faceId, origin: 65, cost: 7, flagChildInherit: true });
      expect((await routes())?.some((route) => route.faceId === faceId && route.cost === 7), "rib/list has it");
      await command("rib/unregister", { name, faceId, origin: 65 });
      expect((await routes()) === undefined, "rib/list has it no more");
      await command("faces/destroy", { faceId });
    },
    async cache() {
      const capacity = async () => (await dataset(nfdmgmt.CsInfo))[0].capacity;
      const before = await capacity();
      await command("cs/config", { capacity: 4321 });
      expect(Number(await capacity()) === 4321, "cs/info has the new capacity");
      await command("cs/config", { capacity: Number(before) });
    },
    async erase() {
      await command("cs/erase", { name });
    },
    async strategy() {
      const strategy = new Name("/localhost/nfd/strategy/multicast");
      const chosen = async () => (await dataset(nfdmgmt.StrategyChoice)).find((row) => row.name.equals(name));
      await command("strategy-choice/set", { name, strategy });
      expect(strategy.isPrefixOf((await chosen())?.strategy ?? new Name()), "strategy-choice/list has it");
      await command("strategy-choice/unset", { name });
      expect((await chosen()) === undefined, "strategy-choice/list has it no more");
    },
  };
  await steps[step]();
}

// The release of 2025-03-07 does not export the status/general dataset: this only checks that it is there.
const generalStatus = { decodeFrom: (decoder) => decoder.read().tlv };

const [verb, ...parameters] = process.argv.slice(2);
const verbs = { put, mgmt,
  cat: (name, file) => cat(name, file, digestSigning),
  // Our shared segments are signed by the tree, which NDNts does not support.
  "cat-unverified": (name, file) => cat(name, file, undefined) };
const face = await connect();
try {
  await verbs[verb](...parameters);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  face.close();
}
process.exit();
