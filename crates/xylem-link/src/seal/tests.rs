use super::*;
use crate::internals::seal_pair;
use crate::kdf::label;

const CIPHERS: [Cipher; 3] = Cipher::ALL;
const ZERO: Duration = Duration::ZERO;
const S: Duration = Duration::from_secs(1);

fn few(packets: u64) -> RekeyLimits {
    RekeyLimits { packets, ..RekeyLimits::default() }
}

fn sealed(sealer: &mut Sealer, text: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; HEADER_LEN];
    datagram.extend_from_slice(text);
    datagram.extend_from_slice(&[0; TAG_LEN]);
    sealer.seal(&mut datagram);
    datagram
}

fn text(datagram: &[u8]) -> &[u8] {
    &datagram[HEADER_LEN..datagram.len() - TAG_LEN]
}

#[test]
fn sealed_datagrams_open_once_in_any_order() {
    for cipher in CIPHERS {
        let (mut sealer, mut opener) = seal_pair(cipher, RekeyLimits::default());
        let mut all: Vec<Vec<u8>> =
            (0..200u8).map(|n| sealed(&mut sealer, &vec![n; usize::from(n)])).collect();
        all.reverse();
        for (n, datagram) in (0..200u8).rev().zip(&all) {
            let mut copy = datagram.clone();
            let opened = opener.open(ZERO, &mut copy).unwrap();
            assert_eq!((opened.number, opened.newest), (u64::from(n), n == 199));
            assert!(text(&copy).iter().all(|b| *b == n) && text(&copy).len() == usize::from(n));
            assert_eq!(opener.open(ZERO, &mut datagram.clone()), Err(OpenDatagramError::Replayed));
        }
    }
}

/// WRAITH: replay window moved before authentication, ratchet moved before the tag is verified. No flipped bit and no
/// truncation of a datagram that would open a new epoch changes anything.
#[test]
fn forgeries_change_neither_window_nor_ratchet() {
    for cipher in CIPHERS {
        let (mut sealer, mut opener) = seal_pair(cipher, few(1));
        let first = sealed(&mut sealer, b"epoch 0");
        sealer.confirm(0);
        assert_eq!(sealer.advance_if_due(ZERO), Ok(true));
        let second = sealed(&mut sealer, b"epoch 1");
        for genuine in [&first, &second] {
            for bit in 0..genuine.len() * 8 {
                let mut forged = genuine.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(opener.open(ZERO, &mut forged).is_err());
            }
            for len in 0..genuine.len() {
                assert!(opener.open(ZERO, &mut genuine[..len].to_vec()).is_err());
            }
        }
        assert_eq!((opener.epoch(), opener.window.end()), (0, 0));
        let opened = opener.open(ZERO, &mut second.clone()).unwrap();
        assert!(opened.advanced && opener.epoch() == 1);
        // The reordered datagram of the previous epoch still opens, for a while.
        assert!(opener.open(S, &mut first.clone()).is_ok());
        opener.forget_if_due(2 * S);
        assert_eq!(opener.forget_at(), Some(3 * S));
        opener.forget_if_due(3 * S);
        assert_eq!(opener.forget_at(), None);
        assert!(opener.connection_ids().any(|id| first.starts_with(&id.0)), "known, not opened");
        assert_eq!(opener.open(3 * S, &mut first.clone()), Err(OpenDatagramError::UnknownId));
    }
}

/// WRAITH: rotating connection id keeps its high half.
#[test]
fn epoch_ids_share_no_half() {
    let (mut sealer, _) = seal_pair(Cipher::Aes256Gcm, few(1));
    let mut ids = vec![];
    for epoch in 0..1_000 {
        let id: [u8; 8] = sealed(&mut sealer, b"")[..8].try_into().unwrap();
        ids.push(u64::from_be_bytes(id));
        sealer.confirm(epoch);
        sealer.advance_if_due(ZERO).unwrap();
    }
    let distance: u32 = ids.windows(2).map(|w| (w[0] ^ w[1]).count_ones()).sum();
    assert!((31_000..33_000).contains(&distance), "{distance} of 64,000 bits differ");
    for half in [0, 32] {
        let mut halves: Vec<u32> = ids.iter().map(|id| (id >> half) as u32).collect();
        halves.sort_unstable();
        halves.dedup();
        assert!(halves.len() >= 999);
    }
}

/// WRAITH: 1,000,000 messages, then a hard error. The test uses the default limits.
#[test]
fn more_than_a_million_messages_at_real_limits() {
    let (mut sealer, mut opener) = seal_pair(Cipher::Aes256Gcm, RekeyLimits::default());
    let mut datagram = [0; OVERHEAD + 4];
    sealer.confirm(0);
    for n in 0..1_100_000u32 {
        sealer.advance_if_due(ZERO).unwrap();
        datagram[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&n.to_be_bytes());
        sealer.seal(&mut datagram);
        let opened = opener.open(ZERO, &mut datagram).unwrap();
        assert_eq!(text(&datagram), n.to_be_bytes());
        if opened.advanced {
            sealer.confirm(opener.epoch());
        }
    }
    assert_eq!((sealer.epoch(), opener.epoch()), (1, 1));
}

#[test]
fn an_unconfirmed_epoch_stays_and_a_used_up_key_stops() {
    let (mut sealer, _) = seal_pair(Cipher::Aes256Gcm, few(10));
    for _ in 0..1_000 {
        sealed(&mut sealer, b"");
        assert_eq!(sealer.advance_if_due(ZERO), Ok(false));
    }
    sealer.confirm(1);
    assert_eq!(sealer.advance_if_due(ZERO), Ok(false), "a confirmation of the future");
    sealer.packets = HARD_PACKETS;
    assert_eq!(sealer.advance_if_due(ZERO), Err(Stalled));
    sealer.confirm(0);
    assert_eq!(sealer.advance_if_due(ZERO), Ok(true));
    let limits = RekeyLimits { packets: u64::MAX, bytes: u64::MAX, time: S };
    let (sealer, _) = seal_pair(Cipher::Aes256Gcm, limits);
    assert!(sealer.limits.packets < HARD_PACKETS && sealer.limits.bytes < HARD_BYTES);
}

#[test]
fn packet_numbers_expand_to_the_nearest() {
    const WIN: u64 = 1 << 32;
    for end in [0, 1, 5_000, WIN / 2, WIN - 1, WIN, WIN + 1, 3 * WIN + WIN / 2, 1 << 61] {
        for near in [0, 1, 4_096, WIN / 2 - 1] {
            for number in [end + near, end.saturating_sub(near)] {
                assert_eq!(expand(number as u32, end), number, "{number} at {end}");
            }
        }
    }
}

/// A gap of more than the window, and numbers beyond 32 bits, on the wire.
#[test]
fn gaps_and_large_numbers_open() {
    let (mut sealer, mut opener) = seal_pair(Cipher::Aes256Gcm, RekeyLimits::default());
    for number in [0, 1_000_000, 3_000_000_000, 5_000_000_000, 7_000_000_000] {
        sealer.next_number = number;
        let opened = opener.open(ZERO, &mut sealed(&mut sealer, b"x")).unwrap();
        assert_eq!(opened.number, number);
    }
}

/// Multiplication in GCM's field; the first bit of a block is the highest of the integer.
fn gf_mul(x: u128, mut y: u128) -> u128 {
    let mut product = 0;
    for i in (0..128).rev() {
        if x >> i & 1 == 1 {
            product ^= y;
        }
        y = (y >> 1) ^ if y & 1 == 1 { 0xe1 << 120 } else { 0 };
    }
    product
}

/// x^(2^128 - 2).
fn gf_inverse(x: u128) -> u128 {
    let mut square = x;
    (1..128).fold(1 << 127, |power, _| {
        square = gf_mul(square, square);
        gf_mul(power, square)
    })
}

fn gcm_tag(keys: &EpochKeys, aad: &[u8]) -> u128 {
    u128::from_be_bytes(keys.aead.seal(0, aad, &mut []))
}

/// WRAITH: "key commitment" put in the AAD and never compared. An AEAD does not commit to its key: this test makes a
/// ciphertext that two epochs' keys both accept. A datagram identifies its epoch by an id derived from the secret, so
/// it is tried under one key only. Each epoch's commitment is sent and compared (a test in endpoint/tests.rs: a wrong
/// one ends the link).
#[test]
fn a_ciphertext_of_two_keys_is_tried_under_one() {
    let secret = |n: u8| {
        EpochSecret::first(label::INITIATOR_EPOCH, &[n; 32], None, &[0; 32], Cipher::Aes256Gcm)
    };
    let keys = [1, 2].map(|n| EpochKeys::new(Cipher::Aes256Gcm, &secret(n)));
    // Tag = (C·H + L)·H + E, no associated data, one block: solve for equal tags.
    let e = [&keys[0], &keys[1]].map(|k| gcm_tag(k, &[]));
    let aad_block = 128u128 << 64;
    let h: Vec<u128> = keys
        .iter()
        .zip(e)
        .map(|(k, e)| gf_mul(gcm_tag(k, &[0; 16]) ^ e, gf_inverse(aad_block)))
        .collect();
    let (h1, h2, l) = (h[0], h[1], 128u128);
    let numerator = gf_mul(l, h1 ^ h2) ^ e[0] ^ e[1];
    let c = gf_mul(numerator, gf_inverse(gf_mul(h1, h1) ^ gf_mul(h2, h2)));
    let tag = (gf_mul(gf_mul(c, h1) ^ l, h1) ^ e[0]).to_be_bytes();
    for k in &keys {
        let mut both = [c.to_be_bytes(), tag].concat();
        assert!(k.aead.open(0, &[], &mut both), "the attack on the bare AEAD works");
    }
    commits(Cipher::Aes256Gcm, [secret(1), secret(2)]);
}

/// Checks the obstacles to ciphertexts for two keys, whatever the AEAD: ids and commitments.
fn commits(cipher: Cipher, secrets: [EpochSecret; 2]) {
    let keys = [0, 1].map(|n| EpochKeys::new(cipher, &secrets[n]));
    assert_ne!(keys[0].cid, keys[1].cid);
    assert_ne!(keys[0].commitment, keys[1].commitment);
    let mut sealer = Sealer::new(cipher, secrets[0].copy_for_test(), RekeyLimits::default(), ZERO);
    let mut openers = secrets.map(|secret| Opener::new(cipher, secret));
    let datagram = sealed(&mut sealer, b"x");
    assert!(openers[0].open(ZERO, &mut datagram.clone()).is_ok());
    assert_eq!(openers[1].open(ZERO, &mut datagram.clone()), Err(OpenDatagramError::UnknownId));
    assert_eq!(openers[1].forgeries, 0, "not even tried");
}
