use crate::{Hasher, hash};

#[test]
fn lengths() {
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    for len in [
        0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 8192, 8193, 131_072, 131_073, 139_265,
        262_144, 262_145, 300_000,
    ] {
        let want = *blake3::hash(&bytes[..len]).as_bytes();
        assert_eq!(hash(&bytes[..len]).as_bytes(), &want, "{len}");
        let mut hasher = Hasher::new();
        for piece in bytes[..len].chunks(777) {
            hasher.update(piece);
        }
        assert_eq!(hasher.finalize().as_bytes(), &want, "{len} in pieces");
    }
}
