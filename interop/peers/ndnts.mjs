// NDNts as producer, consumer and manager, for interop/run: a small client over its libraries, since
// NDNts' own command line tools are published only together with the rest of its repository.
//
//   node ndnts.mjs put NAME FILE       serves FILE below NAME with RDR metadata until SIGTERM
//   node ndnts.mjs cat NAME FILE       finds the newest version by RDR, fetches it into FILE
//   node ndnts.mjs mgmt                every dataset and command that nfdmgmt knows; one JSON line each
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

// Commands go to /localhost whatever the transport: every forwarder here listens on loopback, but NDNts
// itself takes only Unix sockets for local and would ask /localhop.
const local = { prefix: nfdmgmt.localhostPrefix };

async function put(face, name, file) {
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

async function cat(name, file) {
  const metadata = await retrieveMetadata(new Name(name), { retx: 5, verifier: digestSigning });
  const content = await fetch(metadata.name, { verifier: digestSigning, retxLimit: 8 });
  await writeFile(file, content);
  console.error(`${metadata.name}: ${content.length} bytes`);
}

// Segments that we share are signed by the tree, which NDNts does not know: bytes are compared afterwards.
async function catUnverified(name, file) {
  const metadata = await retrieveMetadata(new Name(name), { retx: 5 });
  const content = await fetch(metadata.name, { retxLimit: 8 });
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

async function mgmt() {
  const name = new Name("/interop/ndnts/managed");
  const [status] = await nfdmgmt.list("status/general", [], nfdmgmt.GeneralStatus ?? generalStatus, local);
  expect(status !== undefined, "status/general has one row");
  report("status/general", { rows: 1 });
  expect((await dataset(nfdmgmt.FaceStatus)).length > 0, "there is a face");
  await dataset(nfdmgmt.ChannelStatus).catch((error) => report("faces/channels", { error: `${error}` }));
  expect((await dataset(nfdmgmt.CsInfo)).length === 1, "cs/info has one row");
  expect((await dataset(nfdmgmt.StrategyChoice)).some((row) => row.name.length === 0), "/ has a strategy");

  const uri = `udp4://127.0.0.1:${process.env.MANAGED_PORT ?? 17171}`;
  const face = await command("faces/create", { uri });
  expect(face.faceId > 0, "faces/create answers with a FaceId");
  const found = await dataset(nfdmgmt.FaceQuery({ uri }));
  expect(found.length === 1 && found[0].faceId === face.faceId, "faces/query finds the new face");

  await command("rib/register", { name, faceId: face.faceId, origin: 65, cost: 7, flagChildInherit: true });
  const routes = () => dataset(nfdmgmt.RibEntry).then((rows) => rows.filter((row) => row.name.equals(name)));
  expect((await routes())[0]?.route.some((route) => route.faceId === face.faceId && route.cost === 7),
    "rib/list has the new route");
  await command("rib/unregister", { name, faceId: face.faceId, origin: 65 });
  expect((await routes()).length === 0, "rib/list has the route no more");

  const strategy = new Name("/localhost/nfd/strategy/multicast");
  const chosen = () => dataset(nfdmgmt.StrategyChoice).then((rows) => rows.find((row) => row.name.equals(name)));
  await command("strategy-choice/set", { name, strategy });
  expect(strategy.isPrefixOf((await chosen())?.strategy ?? new Name()), "strategy-choice/list has the choice");
  await command("strategy-choice/unset", { name });
  expect((await chosen()) === undefined, "strategy-choice/list has the choice no more");

  await command("faces/destroy", { faceId: face.faceId });
  expect((await dataset(nfdmgmt.FaceQuery({ uri }))).length === 0, "faces/query finds the face no more");
}

// The release of 2025-03-07 does not export the status/general dataset: this reads that it is there.
const generalStatus = { decodeFrom: (decoder) => decoder.read().tlv };

const [verb, name, file] = process.argv.slice(2);
const verbs = { put: (face) => put(face, name, file), cat: () => cat(name, file),
  "cat-unverified": () => catUnverified(name, file), mgmt: () => mgmt() };
const face = await connect();
try {
  await verbs[verb](face);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  face.close();
}
process.exit();
