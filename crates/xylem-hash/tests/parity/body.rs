// Compiled twice by ../parity.rs, with `hash_crate` standing for `blake3` and for `xylem_hash`. It does not depend on
// which: it uses the public names and records their results.

use hash_crate::hazmat::{self, HasherExt};
use hash_crate::{Hash, Hasher, OutputReader};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};

type Transcript = Vec<(String, Vec<u8>)>;

const KEY: &[u8; hash_crate::KEY_LEN] = b"whats the Elvish word for friend";
const CONTEXT: &str = "xylem 2026-11-22 parity of two crates v1";
const LENGTHS: &[usize] = &[0, 1, 64, 65, 1_023, 1_024, 1_025, 8_192, 16_385, 70_000, 1_600_000];

fn input(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

pub(crate) fn transcript() -> Transcript {
    let mut lines = Transcript::new();
    let mut note = |name: &str, bytes: &[u8]| lines.push((name.to_owned(), bytes.to_vec()));
    constants(&mut note);
    one_shot(&mut note);
    hash_type(&mut note);
    incremental(&mut note);
    output(&mut note);
    readers_and_writers(&mut note);
    parts(&mut note);
    behind_features(&mut note);
    lines
}

fn constants(note: &mut impl FnMut(&str, &[u8])) {
    use hash_crate::{BLOCK_LEN, CHUNK_LEN, KEY_LEN, OUT_LEN};
    for constant in [BLOCK_LEN, CHUNK_LEN, KEY_LEN, OUT_LEN] {
        note("constant", &constant.to_le_bytes());
    }
}

fn one_shot(note: &mut impl FnMut(&str, &[u8])) {
    for len in LENGTHS {
        let input = input(*len);
        note("hash", hash_crate::hash(&input).as_bytes());
        note("keyed_hash", hash_crate::keyed_hash(KEY, &input).as_bytes());
        note("derive_key", &hash_crate::derive_key(CONTEXT, &input));
    }
}

fn hash_type(note: &mut impl FnMut(&str, &[u8])) {
    fn wants<T: Copy + Eq + std::hash::Hash + Send + Sync + Unpin + 'static>(value: T) -> T {
        value
    }
    let hash: Hash = wants(hash_crate::hash(b"abc"));
    let bytes: [u8; 32] = hash.into();
    const CONSTANT: Hash = Hash::from_bytes([7; 32]);
    const SLICE: &[u8] = CONSTANT.as_slice();
    note("const", SLICE);
    note("const", CONSTANT.as_bytes());
    note("as_slice", hash.as_slice());
    note("from_bytes", Hash::from_bytes(bytes).as_bytes());
    note("From", Hash::from(bytes).as_bytes());
    note("from_slice", Hash::from_slice(&bytes).unwrap().as_bytes());
    let error: std::array::TryFromSliceError = Hash::from_slice(&bytes[1..]).unwrap_err();
    note("from_slice", error.to_string().as_bytes());

    let hex = hash.to_hex();
    let text: &str = &hex;
    note("to_hex", text.as_bytes());
    note("to_hex", hex.as_str().as_bytes());
    note("to_hex", hex.to_string().to_uppercase().as_bytes());
    note("to_hex", format!("{hex}|{hex:?}|{}", hex.len()).as_bytes());
    note("Display", format!("{hash}|{hash:?}").as_bytes());
    note("from_hex", Hash::from_hex(text).unwrap().as_bytes());
    note("from_hex", Hash::from_hex(text.to_uppercase()).unwrap().as_bytes());
    note("from_hex", Hash::from_hex(text.as_bytes()).unwrap().as_bytes());
    note("FromStr", text.parse::<Hash>().unwrap().as_bytes());
    for bad in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
        let error: hash_crate::HexError = Hash::from_hex(bad).unwrap_err();
        let error: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
        note("HexError", &[u8::from(error.to_string().is_empty())]);
        note("FromStr", &[u8::from(bad.parse::<Hash>().is_err())]);
    }

    let other = hash_crate::hash(b"abd");
    let (same, slice): (Hash, &[u8]) = (bytes.into(), &bytes);
    let equal = [hash == same, hash == other, hash == bytes, hash == *slice, hash == slice[1..]];
    note("==", &equal.map(u8::from));
    let set: std::collections::HashSet<Hash> = [hash, same, other].into();
    note("Hash", &[set.len() as u8]);
}

fn incremental(note: &mut impl FnMut(&str, &[u8])) {
    fn wants<T: Clone + Default + std::fmt::Debug + Send + Sync + Unpin + 'static>(value: T) -> T {
        value
    }
    let mut hashers =
        [Hasher::new(), wants(Hasher::new_keyed(KEY)), Hasher::new_derive_key(CONTEXT)];
    for hasher in &mut hashers {
        for piece in [0, 1, 63, 1_000, 1_024, 8_192, 10_000, 131_072, 300_000] {
            hasher.update(&input(piece)).update(b"and");
            note("count", &hasher.count().to_le_bytes());
            note("finalize", hasher.finalize().as_bytes());
        }
        let mut copy = hasher.clone();
        copy.update(b"more");
        note("clone", copy.finalize().as_bytes());
        note("reset", hasher.reset().update(b"new").finalize().as_bytes());
        note("reset", &hasher.count().to_le_bytes());
    }
    note("default", Hasher::default().finalize().as_bytes());
    let shown = format!("{:?} {:?}", Hasher::new_keyed(&[0xAB; 32]), Hasher::new());
    note("Debug", &[u8::from(shown.contains("171") || shown.to_lowercase().contains("abab"))]);
}

fn output(note: &mut impl FnMut(&str, &[u8])) {
    fn wants<T: Clone + std::fmt::Debug + Send + Sync + Unpin + 'static>(value: T) -> T {
        value
    }
    for hasher in [Hasher::new(), Hasher::new_keyed(KEY), Hasher::new_derive_key(CONTEXT)] {
        let mut reader: OutputReader = wants(hasher.clone().update(&input(5_000)).finalize_xof());
        for len in [0, 1, 31, 32, 64, 100, 1_000, 5_000] {
            let mut out = vec![0; len];
            reader.fill(&mut out);
            note("fill", &out);
            note("position", &reader.position().to_le_bytes());
        }
        for position in [0, 63, 64, 1_000, (1 << 38) - 100, u64::MAX - 5_000] {
            let mut out = [0; 700];
            reader.set_position(position);
            reader.fill(&mut out);
            note("set_position", &out);
        }
        let (mut all, mut part) = (vec![0; 300], [0; 10]);
        let mut copy = reader.clone();
        copy.rewind().unwrap();
        copy.read_exact(&mut all).unwrap();
        note("Read", &all);
        for to in [SeekFrom::Start(1 << 50), SeekFrom::Current(-77), SeekFrom::Current(7)] {
            note("Seek", &copy.seek(to).unwrap().to_le_bytes());
            note("Seek", &copy.stream_position().unwrap().to_le_bytes());
            note("Seek", &[copy.read(&mut part).unwrap() as u8]);
            note("Seek", &part);
        }
        for to in [SeekFrom::End(0), SeekFrom::Current(i64::MIN)] {
            note("Seek", &[u8::from(copy.seek(to).unwrap_err().kind() == ErrorKind::InvalidInput)]);
        }
        copy.set_position(u64::MAX - 1);
        note("Seek", &copy.seek(SeekFrom::Current(5)).unwrap().to_le_bytes());
    }
}

fn readers_and_writers(note: &mut impl FnMut(&str, &[u8])) {
    let mut hasher = Hasher::new();
    let bytes = input(200_000);
    note("Write", &hasher.write(&bytes[..70_000]).unwrap().to_le_bytes());
    hasher.write_all(&bytes[70_000..]).unwrap();
    hasher.flush().unwrap();
    note("Write", hasher.finalize().as_bytes());
    note("update_reader", Hasher::new().update_reader(&bytes[..]).unwrap().finalize().as_bytes());
    let chained = (&bytes[..999]).chain(&bytes[999..]);
    note("update_reader", Hasher::new().update_reader(chained).unwrap().finalize().as_bytes());
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(ErrorKind::TimedOut.into())
        }
    }
    let mut hasher = Hasher::new();
    let failed = hasher.update_reader((&bytes[..3_000]).chain(Failing)).unwrap_err().kind();
    note("update_reader", &[u8::from(failed == ErrorKind::TimedOut)]);
    note("update_reader", hasher.finalize().as_bytes());
}

fn parts(note: &mut impl FnMut(&str, &[u8])) {
    use hazmat::{
        ChainingValue, ContextKey, Mode, hash_derive_key_context, left_subtree_len, max_subtree_len,
        merge_subtrees_non_root, merge_subtrees_root, merge_subtrees_root_xof,
    };
    for len in [1_025, 2_048, 2_049, 4_096, 1 << 40, (1 << 40) + 1] {
        note("left_subtree_len", &left_subtree_len(len).to_le_bytes());
    }
    for chunk in [0, 1, 2, 3, 4, 12, 1 << 30, (1 << 52) + (1 << 40)] {
        let shown = format!("{:?}", max_subtree_len(chunk * 1_024));
        note("max_subtree_len", shown.as_bytes());
    }
    let context: ContextKey = hash_derive_key_context(CONTEXT);
    note("hash_derive_key_context", &context);
    let hashers = [
        (Hasher::new(), Mode::Hash),
        (Hasher::new_keyed(KEY), Mode::KeyedHash(KEY)),
        (Hasher::new_from_context_key(&context), Mode::DeriveKeyMaterial(&context)),
    ];
    for (hasher, mode) in hashers {
        for len in [1_025, 3_000, 8_192, 100_000, 262_144, 700_001] {
            let message = input(len);
            let value = |from: usize, to: usize| -> ChainingValue {
                let mut hasher = hasher.clone();
                hasher.set_input_offset(from as u64).update(&message[from..to]).finalize_non_root()
            };
            let middle = left_subtree_len(len as u64) as usize;
            let (left, right) = (value(0, middle), value(middle, len));
            note("finalize_non_root", &left);
            note("finalize_non_root", &right);
            note("merge", &merge_subtrees_non_root(&left, &right, mode));
            note("merge", merge_subtrees_root(&left, &right, mode).as_bytes());
            let mut out = [0; 200];
            merge_subtrees_root_xof(&left, &right, mode).fill(&mut out);
            note("merge", &out);
            if middle > 1_024 {
                let half = middle / 2;
                let again = merge_subtrees_non_root(&value(0, half), &value(half, middle), mode);
                note("merge", &again);
            }
            let again = merge_subtrees_root(&left, &right, mode);
            note("merge", hasher.clone().update(&message).finalize().as_bytes());
            note("merge", again.as_bytes());
        }
    }
}

fn behind_features(note: &mut impl FnMut(&str, &[u8])) {
    note("features", b"begin");
    #[cfg(feature = "rayon")]
    for len in LENGTHS {
        let input = input(*len);
        let mut hasher = Hasher::new_keyed(KEY);
        hasher.update_rayon(&input).update(b"unaligned").update_rayon(&input);
        note("update_rayon", hasher.finalize().as_bytes());
    }
    #[cfg(feature = "mmap")]
    for len in [0, 100, 16_383, 16_384, 100_000] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), input(len)).unwrap();
        let mut hasher = Hasher::new();
        hasher.update_mmap(file.path()).unwrap().update(b"more");
        #[cfg(feature = "rayon")]
        hasher.update_mmap_rayon(file.path().to_str().unwrap()).unwrap();
        note("update_mmap", hasher.finalize().as_bytes());
        let missing = file.path().join("missing");
        note("update_mmap", &[u8::from(hasher.update_mmap(missing).is_err())]);
    }
    #[cfg(feature = "serde")]
    {
        let json = serde_json::to_string(&hash_crate::hash(b"abc")).unwrap();
        note("Serialize", json.as_bytes());
        note("Deserialize", serde_json::from_str::<Hash>(&json).unwrap().as_bytes());
        for bad in ["[]", "[1,2]", "7", "\"ab\"", &json.replace("]", ",1]")] {
            note("Deserialize", &[u8::from(serde_json::from_str::<Hash>(bad).is_err())]);
        }
    }
    #[cfg(feature = "zeroize")]
    {
        use zeroize::Zeroize;
        let mut hash = hash_crate::hash(b"abc");
        hash.zeroize();
        note("zeroize", hash.as_bytes());
        let mut hasher = Hasher::new_keyed(KEY);
        let before = hasher.update(&input(300_000)).finalize();
        let mut reader = hasher.finalize_xof();
        hasher.zeroize();
        reader.zeroize();
        note("zeroize", &hasher.count().to_le_bytes());
        note("zeroize", &reader.position().to_le_bytes());
        note("zeroize", &[u8::from(hasher.update(&input(300_000)).finalize() == before)]);
    }
    #[cfg(feature = "traits-preview")]
    traits(note);
}

#[cfg(feature = "traits-preview")]
fn traits(note: &mut impl FnMut(&str, &[u8])) {
    use hash_crate::traits::digest;
    use digest::{Digest, ExtendableOutput, ExtendableOutputReset, KeyInit, Mac, XofReader};
    fn by_any<D: Digest>(input: &[u8]) -> Vec<u8> {
        D::new().chain_update(input).finalize().to_vec()
    }
    note("Digest", &by_any::<Hasher>(b"abc"));
    note("Digest", &<Hasher as Digest>::output_size().to_le_bytes());
    let mut mac = <Hasher as KeyInit>::new_from_slice(KEY).unwrap();
    Mac::update(&mut mac, b"abc");
    note("Mac", &Mac::finalize_reset(&mut mac).into_bytes());
    Mac::update(&mut mac, b"abd");
    let tag = Mac::finalize(mac.clone()).into_bytes();
    note("Mac", &tag);
    note("Mac", &[u8::from(mac.verify(&tag).is_ok())]);
    let mut hasher = Hasher::new();
    digest::Update::update(&mut hasher, b"abc");
    let mut out = [0; 77];
    XofReader::read(&mut ExtendableOutputReset::finalize_xof_reset(&mut hasher), &mut out);
    note("Xof", &out);
    digest::Update::update(&mut hasher, b"abc");
    note("Digest", &Digest::finalize_reset(&mut hasher));
    digest::Reset::reset(&mut hasher);
    XofReader::read(&mut ExtendableOutput::finalize_xof(hasher), &mut out);
    note("Xof", &out);
}

pub(crate) fn refusals() -> Vec<(&'static str, fn())> {
    vec![
        ("an empty part", || {
            let _ = Hasher::new().finalize_non_root();
        }),
        ("an unaligned part", || {
            Hasher::new().set_input_offset(1);
        }),
        ("an offset too late", || {
            Hasher::new().update(b"x").set_input_offset(0);
        }),
        ("too long a part", || {
            let mut hasher = Hasher::new();
            let _ = hasher.set_input_offset(1_024).update(&[0; 1_025]).finalize_non_root();
        }),
        ("the hash of a part", || {
            let _ = Hasher::new().set_input_offset(1_024).finalize();
        }),
        ("the output of a part", || {
            let _ = Hasher::new().set_input_offset(1_024).finalize_xof();
        }),
        ("an unaligned limit", || {
            let _ = hazmat::max_subtree_len(1_000);
        }),
    ]
}
