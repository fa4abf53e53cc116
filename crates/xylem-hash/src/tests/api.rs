//! Tests of the public types: text forms, comparison, `Debug` output, readers and writers.

use super::{CONTEXT, noise};
use crate::backend::Backend;
use crate::tree::ChainingValue;
use crate::{
    Hash, Hasher, HexError, derive_key, hash, hash_blocks, hash_many, keyed_hash,
    keyed_hash_blocks, keyed_hash_many, platform,
};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};

#[test]
fn hex_both_ways() {
    let digest = hash(b"abc");
    let hex = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(digest.to_hex().as_str(), hex);
    assert_eq!(digest.to_string(), hex);
    assert_eq!(hex.parse(), Ok(digest));
    assert_eq!(Hash::from_hex(hex.to_uppercase()), Ok(digest));
    assert_eq!(format!("{digest:?}"), format!("Hash({hex:?})"));
    assert_eq!(Hash::from_hex(&hex[1..]), Err(HexError::Length(63)));
    assert_eq!(Hash::from_hex(""), Err(HexError::Length(0)));
    let bad = hex.replacen('b', "g", 1);
    assert_eq!(Hash::from_hex(&bad), Err(HexError::Digit { at: 4, byte: b'g' }));
    assert_eq!(
        Hash::from_hex(&bad).unwrap_err().to_string(),
        "'g' at offset 4 is not a hexadecimal digit"
    );
    // 32 characters of two bytes each are 64 bytes, none of them a digit.
    assert!(matches!("ä".repeat(32).parse::<Hash>(), Err(HexError::Digit { at: 0, .. })));
}

/// Every byte, in both places of a pair, compared with the standard library.
#[test]
fn hex_digit_by_digit() {
    for byte in 0..=255u8 {
        let digest = Hash::from_bytes([byte; 32]);
        assert_eq!(digest.to_hex(), format!("{byte:02x}").repeat(32).as_str());
        for at in [0, 1, 62, 63] {
            let mut text = [b'0'; 64];
            text[at] = byte;
            let read = Hash::from_hex(text);
            let digit = char::from(byte).to_digit(16);
            assert_eq!(read.is_ok(), digit.is_some(), "{byte:#x}");
            match (read, digit) {
                (Ok(read), Some(digit)) => {
                    let shift = if at % 2 == 0 { 4 } else { 0 };
                    assert_eq!(u32::from(read.as_bytes()[at / 2]), digit << shift);
                }
                (read, _) => assert_eq!(read, Err(HexError::Digit { at, byte })),
            }
        }
    }
}

#[test]
fn hex_is_a_str() {
    let hex = hash(b"abc").to_hex();
    let (text, bytes, path): (&str, &[u8], &std::path::Path) =
        (hex.as_ref(), hex.as_ref(), hex.as_ref());
    assert!(hex == *text && hex == text && bytes == text.as_bytes());
    assert_eq!(path.to_str(), Some(text));
    assert_eq!(format!("{hex:>66}"), format!("  {text}"));
    assert_eq!(format!("{hex:.4}"), text[..4]);
    let map = std::collections::HashMap::from([(hex, 1)]);
    assert_eq!(map.get(text), Some(&1));
}

#[test]
fn wiping_reaches_every_byte() {
    for (from, to) in [(0, 0), (0, 64), (1, 64), (3, 5), (7, 40), (8, 9), (13, 63)] {
        let mut bytes = [0xABu8; 64];
        crate::wipe::wipe(&mut bytes[from..to]);
        for (i, byte) in bytes.iter().enumerate() {
            assert_eq!(*byte == 0, (from..to).contains(&i), "{from}..{to} at {i}");
        }
    }
}

#[test]
fn equality_sees_every_bit() {
    let bytes = [0x5A; 32];
    for bit in 0..256 {
        let mut other = bytes;
        other[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(Hash::from_bytes(bytes), Hash::from_bytes(other));
        assert!(Hash::from_bytes(bytes) != other && Hash::from_bytes(bytes) != other[..]);
        assert_ne!(ChainingValue::from_bytes(bytes), ChainingValue::from_bytes(other));
    }
    assert_eq!(Hash::from(bytes), Hash::from_bytes(bytes));
    assert_eq!(<[u8; 32]>::from(Hash::from(bytes)), bytes);
    assert_eq!(ChainingValue::from(bytes).as_bytes(), &bytes);
}

#[test]
fn debug_shows_no_key() {
    let mut hasher = Hasher::new_keyed(&[0xAB; 32]);
    hasher.update(b"secret");
    assert_eq!(format!("{hasher:?}"), "Hasher { mode: \"keyed\", count: 6, .. }");
    let reader = hasher.finalize_xof();
    assert_eq!(format!("{reader:?}"), "OutputReader { position: 0, .. }");
    assert!(format!("{:?}", Hasher::new_derive_key("a")).contains("derive_key"));
}

#[test]
fn modes_agree_with_the_official_crate() {
    let (key, input) = ([3; 32], noise(10_000, 1));
    assert_eq!(keyed_hash(&key, &input).as_bytes(), blake3::keyed_hash(&key, &input).as_bytes());
    assert_eq!(derive_key(CONTEXT, &input), blake3::derive_key(CONTEXT, &input));
    assert_eq!(Hasher::new_keyed(&key).update(&input).finalize(), keyed_hash(&key, &input));
    let derived = Hasher::new_derive_key(CONTEXT).update(&input).finalize();
    assert_eq!(derived.as_bytes(), &derive_key(CONTEXT, &input));
    assert_eq!(Hasher::default().finalize(), hash(b""));
}

#[test]
fn output_as_a_reader() {
    let mut reader = Hasher::new().update(b"x").finalize_xof();
    let (mut all, mut part) = ([0; 500], [0; 100]);
    reader.read_exact(&mut all).unwrap();
    assert_eq!(reader.seek(SeekFrom::Current(-450)).unwrap(), 50);
    reader.read_exact(&mut part).unwrap();
    assert_eq!(part, all[50..150]);
    for bad in [SeekFrom::Current(-151), SeekFrom::End(0)] {
        assert_eq!(reader.seek(bad).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(reader.position(), 150, "a failed seek changes nothing");
    reader.seek(SeekFrom::Start(u64::MAX - 10)).unwrap();
    assert_eq!(reader.read(&mut part).unwrap(), 10, "the stream ends after 2^64 - 1 bytes");
    assert_eq!(reader.read(&mut part).unwrap(), 0);
    reader.set_position(5);
    assert_eq!(reader.seek(SeekFrom::Current(i64::MAX)).unwrap(), i64::MAX as u64 + 5);
    assert_eq!(reader.seek(SeekFrom::Current(i64::MAX)).unwrap(), u64::MAX, "held at the end");
}

#[test]
#[should_panic(expected = "the stream ends")]
fn filling_past_the_end_of_the_output_panics() {
    let mut reader = Hasher::new().finalize_xof();
    reader.set_position(u64::MAX - 10);
    reader.fill(&mut [0; 11]);
}

/// A reader that returns a few bytes at a time, and is interrupted before each.
struct Halting<'a>(&'a [u8], bool);

impl Read for Halting<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let len = buf.len().min(999);
        self.0.read(&mut buf[..len])
    }
}

#[test]
fn messages_from_readers_and_through_writers() {
    let input = noise(super::affordable(52_500), 2);
    let mut hasher = Hasher::new();
    hasher.update_reader(Halting(&input, false)).unwrap();
    assert_eq!(hasher.finalize(), hash(&input));
    let mut writer = Hasher::new();
    writer.write_all(&input).unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.finalize(), hash(&input));
}

#[test]
#[should_panic(expected = "one place for each input")]
fn many_without_places_panics() {
    hash_many(&[b"a", b"b"], &mut [Hash::from_bytes([0; 32])]);
}

/// The public functions: each mode and each place is the one that its name states.
#[test]
fn many_and_blocks() {
    let (key, input) = ([5; 32], noise(10_000, 19));
    let blocks: Vec<&[u8]> = input.chunks(512).collect();
    let plain: Vec<Hash> = blocks.iter().map(|block| hash(block)).collect();
    let keyed: Vec<Hash> = blocks.iter().map(|block| keyed_hash(&key, block)).collect();
    let mut out = vec![hash(b""); blocks.len()];
    let mut check = |run: &dyn Fn(&mut [Hash]), want: &[Hash]| {
        run(&mut out);
        assert_eq!(out, want);
    };
    check(&|out| hash_many(&blocks, out), &plain);
    check(&|out| keyed_hash_many(&key, &blocks, out), &keyed);
    check(&|out| hash_blocks(&input, 512, out), &plain);
    check(&|out| keyed_hash_blocks(&key, &input, 512, out), &keyed);
    hash_blocks(&[], 4_096, &mut []);
}

#[test]
#[should_panic(expected = "one place for each block")]
fn blocks_without_places_panic() {
    hash_blocks(&[0; 4_097], 4_096, &mut [hash(b"")]);
}

#[test]
#[should_panic(expected = "at least one byte")]
fn blocks_of_nothing_panic() {
    hash_blocks(&[], 0, &mut []);
}

#[test]
fn the_platform_is_the_best_available() {
    let names: Vec<_> = Backend::available().map(Backend::name).collect();
    assert_eq!(platform(), names[0]);
    assert_eq!(names.last(), Some(&"portable"));
    assert!(!Backend::set("abacus"));
    assert!(Backend::set(names[0]));
}
