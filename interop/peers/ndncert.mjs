// NDNts' NDNCERT against ours, each as CA and as client: `interop/peers/ndncert.mjs LINES [RECORD]`.
//
// LINES is the program of crates/xylem-ndncert/examples/lines.rs; packets pass between the two as lines of hexadecimal
// digits. RECORD is a folder for the packets of two exchanges, with the key that was agreed on
// (crates/xylem-ndncert/tests/vectors). NDNts' packages (ndncert, fw and their dependencies) are found in $NDNTS, a
// folder with node_modules.

import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.NDNTS ?? process.cwd(), "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { consume, produce } = await load("@ndn/endpoint");
const { Forwarder } = await load("@ndn/fw");
const { Certificate, createSigner, ECDSA, generateSigningKey } = await load("@ndn/keychain");
const { Data, Interest, Name, ValidityPeriod } = await load("@ndn/packet");
const { Decoder, Encoder } = await load("@ndn/tlv");
const ndncert = await load("@ndn/ndncert");

const [lines, record] = process.argv.slice(2);
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const unhex = (text) => new Uint8Array(Buffer.from(text, "hex"));
const prefix = new Name("/authority");

// The session's derived key, for the record.
let sessionKey;
const { deriveKey } = crypto.subtle;
crypto.subtle.deriveKey = async function(...args) {
  args[3] = true;
  const key = await deriveKey.apply(crypto.subtle, args);
  sessionKey = hex(await crypto.subtle.exportKey("raw", key));
  return key;
};

async function keep(file, said) {
  if (record) { await writeFile(path.join(record, file), `key ${sessionKey}\n${said.join("\n")}\n`); }
}

class Peer {
  constructor(...args) {
    this.child = spawn(lines, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }
  async read() {
    const { value } = await this.lines.next();
    return (value ?? "end").split(" ");
  }
  write(...words) { this.child.stdin.write(`${words.join(" ")}\n`); }
  close() { this.child.stdin.end(); }
}

// NDNts as client of our CA.
async function ourAuthority(challenge, wrong = 0) {
  const fw = Forwarder.create();
  const peer = new Peer("ca", `${prefix}`);
  const own = Certificate.fromData(Decoder.decode(unhex((await peer.read())[1]), Data));
  const [, credential, credentialKey] = await peer.read();
  let code, queue = Promise.resolve();
  const said = [];
  const ask = async (interest) => {
    said.push(`interest ${hex(Encoder.encode(interest))}`);
    peer.write("interest", hex(Encoder.encode(interest)));
    for (;;) {
      const [word, kind, value] = await peer.read();
      if (word === "event") {
        if (kind !== "issued") { code = value; }
      } else if (word === "data") {
        said.push(`data ${kind}`);
        return Decoder.decode(unhex(kind), Data);
      } else {
        throw new Error("no answer");
      }
    }
  };
  produce(prefix, (interest) => (queue = queue.then(() => ask(interest))), { fw });
  const cOpts = { fw };
  try {
    const profile = await ndncert.retrieveCaProfile({ cOpts, caCertFullName: await own.data.computeFullName() });
    if (challenge === "probe") {
      const { entries } = await ndncert.requestProbe({
        cOpts, profile, parameters: { email: new TextEncoder().encode("al@example.org") },
      });
      return entries.map(({ prefix }) => `${prefix}`).join(" ");
    }
    const [privateKey, publicKey] = await generateSigningKey("/authority/al");
    let tried = 0;
    const prompt = async () => (tried++ < wrong ? "000000" : code);
    const old = Certificate.fromData(Decoder.decode(unhex(credential), Data));
    const cryptoKey = await crypto.subtle.importKey("pkcs8", unhex(credentialKey),
      { name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]);
    const oldSigner = createSigner(old.name.getPrefix(-2), ECDSA,
      { privateKey: cryptoKey, info: { curve: "P-256" } });
    const challenges = {
      pin: () => new ndncert.ClientPinChallenge(prompt),
      email: () => new ndncert.ClientEmailChallenge("al@example.org", prompt),
      possession: () => new ndncert.ClientPossessionChallenge(old, oldSigner),
    };
    const certificate = await ndncert.requestCertificate({
      cOpts, profile, privateKey, publicKey, challenges: [challenges[challenge]()],
    });
    await profile.publicKey.verify(certificate.data);
    if (!publicKey.name.isPrefixOf(certificate.name)) { throw new Error(`${certificate.name}`); }
    if (challenge !== "email") { await keep(`ndnts-client-${challenge}.txt`, said); }
    return "issued";
  } finally {
    peer.close();
    fw.close();
  }
}

// NDNts as CA, our client.
async function theirAuthority(challenge, wrong = 0) {
  const fw = Forwarder.create();
  const [signer, verifier] = await generateSigningKey(prefix);
  const cert = await Certificate.selfSign({ privateKey: signer, publicKey: verifier, validity: ValidityPeriod.daysFromNow(10) });
  const profile = await ndncert.CaProfile.build({
    prefix, info: "a CA of NDNts", probeKeys: ["email"], maxValidityPeriod: 86400000, cert, signer,
  });
  let code;
  const pin = new ndncert.ServerPinChallenge();
  pin.addEventListener("newpin", (event) => { code = event.pin; });
  const email = new ndncert.ServerEmailChallenge({
    mail: { sendMail: async (message) => { code = message.text; return {}; } },
    template: { from: "ca@example.org", subject: "s", text: "$pin$" },
  });
  const repo = { insert: async (data) => { produce(data.name, async () => data, { fw }); } };
  const server = ndncert.Server.create({
    pOpts: { fw }, repo, profile, signer, challenges: [pin, email],
  });
  const peer = new Peer("client", `${prefix}`, challenge);
  const said = [];
  try {
    for (let tried = 0;;) {
      const [word, ...rest] = await peer.read();
      if (word === "interest") {
        const interest = Decoder.decode(unhex(rest[0]), Interest);
        try {
          const data = await consume(interest, { fw, retx: 0 });
          said.push(`interest ${rest[0]}`, `data ${hex(Encoder.encode(data))}`);
          peer.write("data", hex(Encoder.encode(data)));
        } catch {
          peer.write("none");
        }
      } else if (word === "code?") {
        peer.write("code", tried++ < wrong ? "000000x" : code);
      } else if (word === "done") {
        const issued = Certificate.fromData(Decoder.decode(unhex(rest[0]), Data));
        await profile.publicKey.verify(issued.data);
        if (challenge === "pin") { await keep("ndnts-ca.txt", said); }
        return "issued";
      } else {
        throw new Error(`${word} ${rest.join(" ")}`);
      }
    }
  } finally {
    peer.close();
    server.close();
    fw.close();
  }
}

let failed = 0;
for (const [what, run, expected] of [
  ["client of ours: pin", () => ourAuthority("pin"), /issued/],
  ["client of ours: pin after two wrong ones", () => ourAuthority("pin", 2), /issued/],
  ["client of ours: three wrong pins", () => ourAuthority("pin", 3), /error 7/],
  ["client of ours: probe", () => ourAuthority("probe"), /^.8=authority.8=org.8=example.8=_user.8=al$|^.authority.org.example._user.al$/],
  ["client of ours: possession", () => ourAuthority("possession"), /issued/],
  ["client of ours: the email of another name", () => ourAuthority("email"), /error 5/],
  ["CA of ours: pin", () => theirAuthority("pin"), /issued/],
  ["CA of ours: pin after two wrong ones", () => theirAuthority("pin", 2), /issued/],
  // NDNts fails to build its answer to the last try, and takes the repeated Interest for a replay.
  ["CA of ours: three wrong pins", () => theirAuthority("pin", 3), /error [37]/],
  ["CA of ours: email", () => theirAuthority("al@example.org"), /issued/],
]) {
  const said = await run().catch((error) => `${error.message}`);
  const good = expected.test(said);
  failed += good ? 0 : 1;
  console.log(`${good ? "ok  " : "FAIL"} NDNts as ${what}: ${said}`);
}
process.exit(failed ? 1 : 0);
