// NDNts as a member of a sync group, for interop/run.
//
//   node svs.mjs VERSION GROUP NAME COUNT
//
// Publishes COUNT packets with texts `NAME says N`, one each 200 ms, and fetches those of others; prints a line
// `heard NAME N TEXT` for each, until SIGTERM. VERSION is 2 or 3. Connects to NDN_CLIENT_TRANSPORT (unix).

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const require = createRequire(path.join(process.env.NDNTS ?? process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);

const { UnixTransport } = await load("@ndn/node-transport");
const { GenericNumber, SequenceNum } = await load("@ndn/naming-convention2");
const { Component, Data, Interest, Name, digestSigning } = await load("@ndn/packet");
const { consume, produce } = await load("@ndn/endpoint");
const { NNI, Encoder } = await load("@ndn/tlv");
const { SvSync } = await load("@ndn/svs");
const nfdmgmt = await load("@ndn/nfdmgmt");

const [version, group, self, count] = process.argv.slice(2);
const svs3 = version === "3";
const syncPrefix = new Name(group);
const face = await UnixTransport.createFace({}, new URL(process.env.NDN_CLIENT_TRANSPORT).pathname);
nfdmgmt.enableNfdPrefixReg(face, { prefix: nfdmgmt.localhostPrefix });

// A name of version 3 has the bootstrap time in seconds, which NDNts' conventions take for microseconds.
function nameOf(id, seq) {
  const name = (id.name ?? id).append(...syncPrefix.comps);
  if (!svs3) {
    return name.append(GenericNumber, seq);
  }
  return name.append(new Component(0x38, Encoder.encode(NNI(id.boot))), SequenceNum.create(seq));
}

const sync = await SvSync.create({ syncPrefix, svs3, signer: digestSigning, verifier: digestSigning });
const own = sync.add(new Name(self));
const published = new Map();
produce(new Name(self).append(...syncPrefix.comps), async (interest) => published.get(interest.name.valueHex));

sync.addEventListener("rxerror", ({ detail: [, error] }) => console.log(`error ${error}`));
sync.addEventListener("update", async (update) => {
  for (const seq of update.seqNums()) {
    const { content } = await consume(new Interest(nameOf(update.id, seq)), { retx: 3 });
    // NDNts writes the type of every component.
    const name = `${update.id.name ?? update.id}`.replaceAll("/8=", "/");
    console.log(`heard ${name} ${seq} ${new TextDecoder().decode(content)}`);
  }
});

console.log("joined");
for (let seq = 1; seq <= Number(count); ++seq) {
  const data = new Data(nameOf(own.id, seq), new TextEncoder().encode(`${self} says ${seq}`), Data.FreshnessPeriod(60000));
  await digestSigning.sign(data);
  published.set(data.name.valueHex, data);
  own.seqNum = seq;
  await new Promise((resolve) => { setTimeout(resolve, 200); });
}
await new Promise((resolve) => { process.once("SIGTERM", resolve); });
sync.close();
process.exit();
