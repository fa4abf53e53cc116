//! Private publications: the list of recipients, which any publisher may have written, and the encrypted listing, which
//! comes from its publisher. Nothing panics, no changed content is accepted, and a list has one form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use xylem_link::StaticKey;
use xylem_mail::sealed::{Master, SealedFiles, SealedList, open, seal};
use xylem_object::witness::WitnessSubject;
use xylem_object::{Manifest, PublisherKey, naming};

static SUBJECT: LazyLock<WitnessSubject> = LazyLock::new(|| {
    let publisher = PublisherKey::from_bytes(&[3; 32]).public();
    WitnessSubject::new(publisher, naming::default_name(&publisher, b"letter").as_ref())
});

static GENUINE: LazyLock<(StaticKey, SealedFiles, SealedList)> = LazyLock::new(|| {
    let us = StaticKey::from_bytes([2; 32]);
    let root = xylem_hash::hash(b"hello");
    let master = Master::new(&[1; 32], b"place");
    let manifest = Manifest::file(root, 5, b"hello.txt");
    let keys = vec![master.file(&root)];
    let list = SealedList { manifest, listing: Vec::new(), keys, padded: false };
    let sealed = seal(&master, &list, &[us.public()], &SUBJECT).unwrap();
    (us, sealed, list)
});

fuzz_target!(|data: &[u8]| {
    let Some((&op, rest)) = data.split_first() else { return };
    let (us, sealed, list) = &*GENUINE;
    match op % 4 {
        0 => {
            if let Ok(read) = SealedList::decode(rest) {
                assert_eq!(read.encode().unwrap()[..], *rest);
            }
        }
        1 => assert!(rest == sealed.keys || open(us, &SUBJECT, rest, &sealed.list).is_err()),
        2 => assert!(rest == sealed.list || open(us, &SUBJECT, &sealed.keys, rest).is_err()),
        _ => {
            let (mut keys, mut bytes) = (sealed.keys.clone(), sealed.list.clone());
            let len = keys.len() + bytes.len();
            for flip in rest.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([flip[0], flip[1]])) % len;
                match at.checked_sub(keys.len()) {
                    None => keys[at] ^= flip[2],
                    Some(at) => bytes[at] ^= flip[2],
                }
            }
            let unchanged = keys == sealed.keys && bytes == sealed.list;
            match open(us, &SUBJECT, &keys, &bytes) {
                Ok(read) => assert!(unchanged && read == *list),
                Err(_) => assert!(!unchanged),
            }
        }
    }
});
