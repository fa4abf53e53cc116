// The checks for Node and browsers: the official vectors, and the behaviour of the exported names.
//
//   check(package, vectors)   →  a line for each failure

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const throws = (fn) => {
  try {
    fn();
    return false;
  } catch {
    return true;
  }
};

export function check(b3, vectors) {
  const wrong = [];
  let checks = 0;
  const is = (what, got, want) => {
    checks++;
    if (got !== want) wrong.push(`${what}: ${got} instead of ${want}`);
  };

  const lines = vectors.split("\n").filter((line) => line && line[0] !== "#");
  const key = new TextEncoder().encode(lines.shift().slice("key ".length));
  const context = lines.shift().slice("context ".length);
  is("official lengths", lines.length, 35);
  for (const line of lines) {
    const [length, ...wanted] = line.split(" ");
    const message = Uint8Array.from({ length: Number(length) }, (_, i) => i % 251);
    const all = { length: 131 };
    is(`hash of ${length}`, hex(b3.hash(message, all)), wanted[0]);
    is(`keyed hash of ${length}`, hex(b3.keyedHash(key, message, all)), wanted[1]);
    is(`key from ${length}`, hex(b3.deriveKey(context, message, all)), wanted[2]);
    const hashers = [b3.createHash(), b3.createKeyed(key), b3.createDeriveKey(context)];
    for (const [mode, hasher] of hashers.entries()) {
      for (let at = 0, piece = 1; at < message.length; at += piece, piece = piece * 3 + 1) {
        hasher.update(message.subarray(at, at + piece));
      }
      is(`by pieces ${length}`, hasher.digest("hex", { dispose: false }), wanted[mode].slice(0, 64));
      const reader = hasher.reader();
      reader.position = 64n;
      is(`from 64 ${length}`, hex(reader.read(67)), wanted[mode].slice(128));
      is(`position ${length}`, reader.position, 131n);
      is(`text ${length}`, reader.toString(), wanted[mode].slice(0, 64));
      reader.dispose();
    }
  }

  // Longer than the stage, from every kind of input.
  const long = Uint8Array.from({ length: 300_001 }, (_, i) => (i * 7) % 253);
  const want = hex(b3.hash(long));
  is("array", hex(b3.hash(Array.from(long))), want);
  is("buffer", hex(b3.hash(long.buffer)), want);
  const inside = new Uint8Array(long.length + 8);
  inside.set(long, 8);
  is("view", hex(b3.hash(new DataView(inside.buffer, 8))), want);
  const pieces = b3.createHash();
  for (let at = 0; at < long.length; at += 1000) pieces.update(long.subarray(at, at + 1000));
  is("short pieces", pieces.digest("hex", { dispose: false }), want);
  const reader = pieces.reader();
  const output = Array.from({ length: 300 }, () => hex(reader.read(1000))).join("");
  is("long output", hex(b3.hash(long, { length: 300_000 })) === output, true);
  is("text", b3.hash("grüße").toString(), b3.hash(new TextEncoder().encode("grüße")).toString());

  const hash = b3.hash("a");
  is("a Hash", hash instanceof b3.Hash && hash instanceof Uint8Array, true);
  is("equals", hash.equals(b3.hash("a")), true);
  is("differs", hash.equals(b3.hash("b")), false);
  is("shorter", hash.equals(hash.subarray(1)), false);
  is("base64", hash.toString("base64"), btoa(String.fromCharCode(...hash)));

  // Copies are independent. A disposed hasher is gone, and its slot is reused.
  const one = b3.createHash().update("a");
  const two = one.clone().update("b");
  is("copied", one.digest("hex"), b3.hash("a").toString());
  is("copy", two.digest("hex"), b3.hash("ab").toString());
  is("used up", throws(() => one.update("c")), true);
  for (let i = 0; i < 10_000; i++) b3.createHash().update("x").dispose();
  is("using", b3.using(b3.createHash(), (hasher) => hasher.update("a").digest("hex", { dispose: false })), hash.toString());

  is("short key", throws(() => b3.keyedHash(new Uint8Array(31), "")), true);
  is("number", throws(() => b3.hash(5)), true);
  is("nothing", throws(() => b3.hash(null)), true);
  is("length", throws(() => b3.hash("", { length: -1 })), true);
  is("past the end", throws(() => {
    const reader = b3.createHash().reader();
    reader.position = b3.maxHashBytes - 1n;
    reader.read(2);
  }), true);
  return { wrong, checks };
}
