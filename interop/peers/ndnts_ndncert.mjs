// NDNts' NDNCERT at a forwarder, for interop/run:
//
//   node ndnts_ndncert.mjs request NAME CERTIFICATE DIGEST pin|EMAIL   asks the CA of that certificate for one of
//        NAME; a line of standard input is a code. Prints `issued CERTIFICATE`.
//   node ndnts_ndncert.mjs ca PREFIX   is a CA until SIGTERM: prints `ca DIGEST`, then `code CODE` for each code
//
// Connects to NDN_CLIENT_TRANSPORT (unix:///path). NDNts' packages are found in $NDNTS, a folder with node_modules.

import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.NDNTS ?? process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { UnixTransport } = await load("@ndn/node-transport");
const { produce } = await load("@ndn/endpoint");
const { Certificate, generateSigningKey } = await load("@ndn/keychain");
const { ImplicitDigest, Name, ValidityPeriod } = await load("@ndn/packet");
const { AltUri } = await load("@ndn/naming-convention2");
const nfdmgmt = await load("@ndn/nfdmgmt");
const ndncert = await load("@ndn/ndncert");

const face = await UnixTransport.createFace({}, new URL(process.env.NDN_CLIENT_TRANSPORT).pathname);

async function request(name, certificate, digest, challenge) {
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const prompt = async () => (await lines.next()).value;
  const caCertFullName = AltUri.parseName(certificate).append(ImplicitDigest.create(Buffer.from(digest, "hex")));
  const profile = await ndncert.retrieveCaProfile({ caCertFullName });
  const [privateKey, publicKey] = await generateSigningKey(name);
  const issued = await ndncert.requestCertificate({
    profile, privateKey, publicKey,
    challenges: [challenge === "pin" ? new ndncert.ClientPinChallenge(prompt) : new ndncert.ClientEmailChallenge(challenge, prompt)],
  });
  await profile.publicKey.verify(issued.data);
  if (!publicKey.name.isPrefixOf(issued.name)) { throw new Error(`${issued.name}`); }
  console.log(`issued ${AltUri.ofName(issued.name)}`);
}

async function authority(prefix) {
  nfdmgmt.enableNfdPrefixReg(face, { prefix: nfdmgmt.localhostPrefix });
  const [signer, verifier] = await generateSigningKey(prefix);
  const cert = await Certificate.selfSign({ privateKey: signer, publicKey: verifier, validity: ValidityPeriod.daysFromNow(10) });
  const profile = await ndncert.CaProfile.build({
    prefix: new Name(prefix), info: "a CA of NDNts", probeKeys: [], maxValidityPeriod: 86400000, cert, signer,
  });
  const pin = new ndncert.ServerPinChallenge();
  pin.addEventListener("newpin", (event) => { console.log(`code ${event.pin}`); });
  const repo = { insert: async (data) => { produce(data.name, async () => data); } };
  ndncert.Server.create({ repo, profile, signer, challenges: [pin] });
  console.log(`ca ${Buffer.from(await cert.data.computeImplicitDigest()).toString("hex")}`);
  await new Promise((resolve) => { process.once("SIGTERM", resolve); });
}

const [what, ...rest] = process.argv.slice(2);
try {
  await (what === "ca" ? authority(...rest) : request(...rest));
} catch (error) {
  console.log(`failed ${error.message}`);
  process.exit(1);
}
process.exit(0);
