//! Keys and messages: vectors of other implementations, replays, and mixed-up senders.

use data_encoding::HEXLOWER;
use xylem_ndncert::packets::Encrypted;
use xylem_ndncert::{Agreement, Derivation, RequestId, RequestSession, SessionError};

const ID: RequestId = RequestId([1, 2, 3, 4, 5, 6, 7, 8]);

fn numbered<const N: usize>(from: u8) -> [u8; N] {
    core::array::from_fn(|i| from + i as u8)
}

fn pair() -> (RequestSession, RequestSession) {
    let key = Derivation::Blake3.key(&[1; 32], &[2; 32], ID);
    (RequestSession::new(&key, ID, [3; 8]), RequestSession::new(&key, ID, [4; 8]))
}

/// The key was derived by Node's crypto (OpenSSL), and by the `blake3` package of Python.
#[test]
fn keys_equal_those_of_other_implementations() {
    let (secret, salt) = (numbered::<32>(0), numbered::<32>(0x80));
    let hkdf = Derivation::HkdfSha256.key(&secret, &salt, ID);
    assert_eq!(HEXLOWER.encode(&hkdf[..]), "72e79ad666fe615cae6414457aef8be3");
    let blake3 = Derivation::Blake3.key(&secret, &salt, ID);
    assert_eq!(HEXLOWER.encode(&blake3[..]), "e7d1920ccf917e6f90d76bbd689eb3b9");
}

/// Two messages by Node's crypto: AAD is the request's name, and the second counter is 3 blocks on.
#[test]
fn messages_equal_those_of_other_implementations() {
    let key = Derivation::HkdfSha256.key(&numbered(0), &numbered(0x80), ID);
    let mut session = RequestSession::new(&key, ID, numbered(0xA0));
    let mut reader = RequestSession::new(&key, ID, [0; 8]);
    for (counter, plaintext, payload, tag) in [
        (
            0,
            "a challenge that is longer than a block",
            "1d9f417926257c7ddcd1b264b8e2650b58a6b9ab19ba667802a81acf7f411c1fadbe58bb7afd27",
            "398d0b651557599c4a8e59333986b94d",
        ),
        (3, "code", "51b9ea51", "eb9a86fe030a65450a45c9e13372dc26"),
    ] {
        let sealed = session.seal(plaintext.as_bytes()).unwrap();
        assert_eq!(sealed.iv[..8], numbered::<8>(0xA0));
        assert_eq!(sealed.iv[8..], u32::to_be_bytes(counter));
        assert_eq!(HEXLOWER.encode(&sealed.payload), payload);
        assert_eq!(HEXLOWER.encode(&sealed.tag), tag);
        assert_eq!(reader.open(&sealed).unwrap(), plaintext.as_bytes());
    }
}

#[test]
fn both_sides_agree() {
    for derivation in [Derivation::HkdfSha256, Derivation::Blake3] {
        let (client, ca) = (Agreement::new().unwrap(), Agreement::new().unwrap());
        let (of_client, of_ca) = (client.public(), ca.public());
        let mut client = client.agree(&of_ca, derivation, &[9; 32], ID, [1; 8]).unwrap();
        let mut ca = ca.agree(&of_client, derivation, &[9; 32], ID, [2; 8]).unwrap();
        assert_eq!(ca.open(&client.seal(b"code").unwrap()).unwrap(), b"code");
        assert_eq!(client.open(&ca.seal(b"").unwrap()).unwrap(), b"");
    }
}

#[test]
fn a_point_that_is_none_is_refused() {
    let mut off_curve = [1; 65];
    off_curve[0] = 4;
    let mut compressed = Agreement::new().unwrap().public();
    compressed[0] = 2;
    for theirs in [[0; 65], off_curve, compressed] {
        let agreed =
            Agreement::new().unwrap().agree(&theirs, Derivation::HkdfSha256, &[0; 32], ID, [0; 8]);
        assert_eq!(agreed.unwrap_err(), SessionError::Point);
    }
}

#[test]
fn nothing_is_taken_twice_or_late() {
    let (mut client, mut ca) = pair();
    let sealed: Vec<_> = (0..3).map(|n| client.seal(&[n; 20]).unwrap()).collect();
    assert_eq!(ca.open(&sealed[1]).unwrap(), [1; 20]);
    assert_eq!(ca.open(&sealed[1]), Err(SessionError::Replayed));
    assert_eq!(ca.open(&sealed[0]), Err(SessionError::Replayed), "overtaken");
    assert_eq!(ca.open(&sealed[2]).unwrap(), [2; 20]);
}

/// An empty message counts as a block; otherwise its IV would be used again.
#[test]
fn no_iv_is_used_twice() {
    let (mut client, _) = pair();
    let ivs: Vec<_> =
        [0, 1, 16, 17, 0, 5].map(|len| client.seal(&vec![0; len]).unwrap().iv[11]).into();
    assert_eq!(ivs, [0, 1, 2, 3, 5, 6]);
}

#[test]
fn our_own_messages_do_not_come_back() {
    let (mut client, mut ca) = pair();
    let sealed = client.seal(b"code").unwrap();
    assert_eq!(client.open(&sealed), Err(SessionError::OtherSender));
    ca.open(&sealed).unwrap();
    let other = RequestSession::new(&Derivation::Blake3.key(&[1; 32], &[2; 32], ID), ID, [5; 8])
        .seal(b"code")
        .unwrap();
    assert_eq!(ca.open(&other), Err(SessionError::OtherSender));
}

#[test]
fn every_bit_counts_and_a_refused_message_changes_nothing() {
    let (mut client, mut ca) = pair();
    let good = client.seal(b"a message").unwrap();
    for bit in 0..8 * (12 + 16 + good.payload.len()) {
        let mut bad = good.clone();
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        match at {
            0..12 => bad.iv[at] ^= mask,
            12..28 => bad.tag[at - 12] ^= mask,
            _ => bad.payload[at - 28] ^= mask,
        }
        ca.open(&bad).unwrap_err();
    }
    let last = Encrypted {
        iv: [[3; 8].as_slice(), &[255; 4]].concat().try_into().unwrap(),
        ..good.clone()
    };
    assert_eq!(ca.open(&last), Err(SessionError::Exhausted));
    assert_eq!(ca.open(&good).unwrap(), b"a message");
}

#[test]
fn a_key_of_another_request_opens_nothing() {
    let (mut client, _) = pair();
    let key = Derivation::Blake3.key(&[1; 32], &[2; 32], ID);
    let mut other = RequestSession::new(&key, RequestId([9; 8]), [4; 8]);
    assert_eq!(other.open(&client.seal(b"x").unwrap()), Err(SessionError::NotGenuine));
}
