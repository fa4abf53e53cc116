// Selects one of the two builds of the module: the one with simd128 if the engine supports it. An engine refuses a
// module with unknown instructions, so the smallest such module is validated as a probe.
const PROBE = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, // magic, version
  1, 5, 1, 96, 0, 1, 123, // a type: () -> v128
  3, 2, 1, 0, // a function of it
  10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11, // i8x16.popcnt(i8x16.splat(0))
]);

export const name = WebAssembly.validate(PROBE) ? "simd128.wasm" : "portable.wasm";
