//! [`RoleSchema`]: a trust schema (docs/spec/trust.md) that decides what the owners of certified names may do in a
//! group. A member presents *vouchers*, Data packets without content, signed by certified keys, with these names:
//!
//! ```text
//! /32=sync/FOUNDER/32=write/MEMBER     this key may write        FOUNDER, MEMBER: keys, as 64 hexadecimal digits
//! /32=sync/FOUNDER/32=read/MEMBER      this key may read
//! ```
//!
//! It also presents the certificates between those keys and an anchor. A member has a role if the schema allows a key
//! to sign the voucher.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::sync::Arc;

use xylem_object::PublisherId;
use xylem_packet::{Component, Data, DataBuilder, Name};
use xylem_trust::schema::Schema;
use xylem_trust::{
    Certificate, CertificateChain, ChainAction, ChainError, MAX_CHAIN, Signer, TrustRules,
    TrustStore, key_name_of,
};

use super::fields::{array, field, put};

/// Most bytes of a schema with its anchors: the founder's statement holds them.
const MAX_SCHEMA: usize = 8 * 1024;
/// Most bytes that a member presents.
pub(super) const MAX_PRESENTATION: usize = 8 * 1024;
const MAX_ANCHORS: usize = 8;
const WRITE: &[u8] = b"write";
const READ: &[u8] = b"read";

/// A schema and the anchor certificates at which its chains end, as the founder's statement holds them.
#[derive(Clone, Debug)]
pub struct RoleSchema {
    bytes: Vec<u8>,
    schema: Arc<Schema>,
    anchors: Vec<Vec<u8>>,
}

impl PartialEq for RoleSchema {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for RoleSchema {}

/// Rights of a member by its certificates, and their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertifiedRole {
    /// Whether its changes are taken over.
    pub writes: bool,
    /// When it has to be judged again, in milliseconds since 1970: one of the certificates ends.
    pub until_ms: u64,
}

/// Why certificates make a key no member.
#[derive(Debug, thiserror::Error)]
pub enum NotCertified {
    /// It has presented none.
    #[error("it has sent no certificate; start it with `xylem sync DIR --sign key:NAME`")]
    Nothing,
    /// Its certificates or vouchers do not follow the layout, or concern another key or group.
    #[error("its certificates do not vouch for its key in this group")]
    Malformed,
    /// A certificate or voucher that fails, and why.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// A part that is too long for a statement.
#[derive(Debug, thiserror::Error)]
pub enum PartTooLong {
    /// A schema with its anchors.
    #[error(
        "more than {MAX_ANCHORS} anchors, or more than {MAX_SCHEMA} bytes of schema and anchors"
    )]
    Schema,
    /// A member's certificates.
    #[error("more than {MAX_CHAIN} certificates, or more than {MAX_PRESENTATION} bytes of them")]
    Certificates,
}

impl RoleSchema {
    /// Makes a schema with these certificates as the ends of its chains.
    ///
    /// # Errors
    /// It is too long for a statement.
    pub fn new(schema: &Schema, anchors: &[Vec<u8>]) -> Result<Self, PartTooLong> {
        let mut bytes = Vec::new();
        put(&mut bytes, &schema.encode());
        put_packets(&mut bytes, anchors);
        // A part that was cut off, or is no certificate, is missing after parsing.
        let read = Self::read(&bytes).ok_or(PartTooLong::Schema)?;
        Some(read).filter(|read| read.anchors == anchors).ok_or(PartTooLong::Schema)
    }

    /// Parses a schema with its anchors.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = Some(bytes).filter(|bytes| bytes.len() <= MAX_SCHEMA)?;
        let schema = Arc::new(Schema::decode(field(&mut input)?).ok()?);
        let anchors = read_packets(&mut input, MAX_ANCHORS)?;
        let sound = input.is_empty()
            && !anchors.is_empty()
            && anchors.iter().all(|anchor| Certificate::decode(anchor).is_ok());
        let anchors = anchors.into_iter().map(<[u8]>::to_vec).collect();
        sound.then(|| Self { bytes: bytes.to_vec(), schema, anchors })
    }

    /// Returns the encoding that statements hold.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Judges what the owner of `member` may do in this founder's group, by what it presents.
    ///
    /// # Errors
    /// It may do nothing; the error gives the reason.
    pub fn judge(
        &self,
        founder: &PublisherId,
        member: &PublisherId,
        shown: &[u8],
        now_ms: u64,
    ) -> Result<CertifiedRole, NotCertified> {
        if shown.is_empty() {
            return Err(NotCertified::Nothing);
        }
        let Presentation { vouchers, certificates } =
            Presentation::read(shown).ok_or(NotCertified::Malformed)?;
        let mut why = NotCertified::Malformed;
        for (role, writes) in [(WRITE, true), (READ, false)] {
            let name = voucher(founder, member, role);
            let data = vouchers.iter().filter_map(|packet| Data::decode(packet).ok());
            let Some(data) = data.into_iter().find(|data| data.name() == name.as_ref()) else {
                continue;
            };
            match self.believes(&data, &certificates, now_ms) {
                Ok(()) => {
                    let until_ms = self.until(&certificates, now_ms);
                    return Ok(CertifiedRole { writes, until_ms });
                }
                Err(refused) => why = refused,
            }
        }
        Err(why)
    }

    fn believes(
        &self,
        voucher: &Data<'_>,
        certificates: &[&[u8]],
        now_ms: u64,
    ) -> Result<(), NotCertified> {
        let mut store = TrustStore::new();
        for anchor in self.anchors.iter().filter_map(|anchor| Certificate::decode(anchor).ok()) {
            let rules: Arc<dyn TrustRules> = self.schema.clone();
            // An anchor with a key that cannot verify vouches for no key.
            let _ = store.add_anchor_under(&anchor, rules);
        }
        let mut chain = CertificateChain::of(voucher)?;
        loop {
            while let ChainAction::Ask(question) = chain.step(&mut store, now_ms)? {
                let answers = |packet: &&[u8]| {
                    let found = Certificate::decode(packet).ok()?;
                    let fits = question.name.as_ref().is_prefix_of(found.name());
                    let of_other = found.signer().and_then(key_name_of) != Some(found.key_name());
                    let is_good = of_other && found.validity().contains(now_ms);
                    (fits && !chain.has_refused(packet)).then_some(is_good)
                };
                // Of several, first one that can be a link of the chain.
                let found = certificates
                    .iter()
                    .filter_map(|packet| answers(packet).map(|is_good| (!is_good, packet)));
                match found.min_by_key(|(is_bad, _)| *is_bad) {
                    Some((_, found)) => chain.answer(found, now_ms)?,
                    None => chain.missing()?,
                }
            }
            match store.data(voucher, now_ms) {
                Ok(()) => return Ok(()),
                Err(flaw) => chain.refuse_packet(flaw)?,
            }
        }
    }

    /// Returns when the first of the certificates that are valid now ends, in milliseconds since 1970.
    fn until(&self, certificates: &[&[u8]], now_ms: u64) -> u64 {
        let anchors = self.anchors.iter().map(Vec::as_slice);
        let all = anchors.chain(certificates.iter().copied());
        let valid = all.filter_map(|packet| Some(Certificate::decode(packet).ok()?.validity()));
        let ends = valid.filter(|validity| validity.contains(now_ms));
        ends.map(|validity| validity.not_after_ms.saturating_add(1000)).min().unwrap_or(0)
    }
}

fn voucher(founder: &PublisherId, member: &PublisherId, role: &[u8]) -> Name {
    let (founder, member) = (founder.to_string(), member.to_string());
    let (founder, member) = (founder.as_bytes(), member.as_bytes());
    Name::default()
        .child(Component::keyword(b"sync"))
        .child(Component::generic(founder))
        .child(Component::keyword(role))
        .child(Component::generic(member))
}

/// Makes what the owner of `signer`'s key presents for `member`, its key in this founder's group: vouchers, and these
/// certificates. The owner cannot know which role it has, so it vouches for both.
///
/// # Errors
/// It is too long for a statement.
pub fn present(
    founder: &PublisherId,
    member: &PublisherId,
    signer: &Signer,
    certificates: &[Vec<u8>],
) -> Result<Vec<u8>, PartTooLong> {
    let mut vouchers = Vec::new();
    for role in [WRITE, READ] {
        let (name, mut packet) = (voucher(founder, member, role), Vec::new());
        let builder = DataBuilder::new(name.as_ref());
        signer.data(builder, &[], &mut packet).map_err(|_| PartTooLong::Certificates)?;
        vouchers.push(packet);
    }
    let mut out = Vec::new();
    put_packets(&mut out, &vouchers);
    put_packets(&mut out, certificates);
    let whole = Presentation::read(&out).is_some_and(|read| read.certificates == certificates);
    if whole { Ok(out) } else { Err(PartTooLong::Certificates) }
}

struct Presentation<'a> {
    vouchers: Vec<&'a [u8]>,
    certificates: Vec<&'a [u8]>,
}

impl<'a> Presentation<'a> {
    fn read(shown: &'a [u8]) -> Option<Self> {
        let mut input = Some(shown).filter(|shown| shown.len() <= MAX_PRESENTATION)?;
        let vouchers = read_packets(&mut input, 2)?;
        let certificates = read_packets(&mut input, MAX_CHAIN)?;
        input.is_empty().then_some(Self { vouchers, certificates })
    }
}

/// Appends a count, and that many packets, each with its length in front.
fn put_packets(out: &mut Vec<u8>, packets: &[Vec<u8>]) {
    out.push(u8::try_from(packets.len()).unwrap_or(u8::MAX));
    packets.iter().for_each(|packet| put(out, packet));
}

fn read_packets<'a>(input: &mut &'a [u8], most: usize) -> Option<Vec<&'a [u8]>> {
    let [count] = array(input)?;
    let count = Some(usize::from(count)).filter(|count| *count <= most)?;
    (0..count).map(|_| field(input)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use xylem_trust::{ChainFlaw, Issue, TrustError, ValidityPeriod, self_signed};

    pub(crate) const NOW: u64 = 1_800_000_000_000;
    const MEMBER: PublisherId = PublisherId([2; 32]);
    pub(crate) const FOUNDER: PublisherId = PublisherId([1; 32]);
    /// Staff may write, guests may read; each team may be vouched for by the next one.
    fn rules() -> Schema {
        let mut text = r##"
#key: "KEY"/_/_/_
#root: "org"/#key
#staff: "org"/"staff"/_/#key <= #root | #team0
#guest: "org"/"guest"/_/#key <= #root
#write: "32=sync"/_/"32=write"/_ <= #staff
#read: "32=sync"/_/"32=read"/_ <= #staff | #guest
#team8: "org"/"team"/"8"/#key <= #root
"##
        .to_owned();
        for n in 0..8 {
            let next = n + 1;
            text += &format!("#team{n}: \"org\"/\"team\"/\"{n}\"/#key <= #root | #team{next}\n");
        }
        Schema::compile(&text).unwrap()
    }

    fn signer(name: &str, seed: u8) -> Signer {
        Signer::ed25519(&[seed; 32], format!("{name}/KEY/{seed}").parse().unwrap())
    }

    fn until(not_after_ms: u64) -> ValidityPeriod {
        ValidityPeriod { not_before_ms: NOW - 1_000_000, not_after_ms }
    }

    fn issued(to: &Signer, by: &Signer, not_after_ms: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let issue = Issue {
            key_name: to.key_locator().unwrap(),
            issuer_id: Component::generic(b"org"),
            version: 1,
            public_key: &to.public().unwrap(),
            validity: until(not_after_ms),
        };
        issue.sign(by, &mut out).unwrap();
        out
    }

    fn root() -> Signer {
        signer("/org", 1)
    }

    pub(crate) fn schema() -> RoleSchema {
        let anchor = self_signed(&root(), 1, until(NOW + 9_000_000)).unwrap();
        RoleSchema::new(&rules(), &[anchor]).unwrap()
    }

    /// Vouchers and certificate of an owner of this name, certified by the organisation until then.
    pub(crate) fn shown_by(name: &str, member: &PublisherId, not_after_ms: u64) -> Vec<u8> {
        let own = signer(name, 5);
        let certificate = issued(&own, &root(), not_after_ms);
        present(&FOUNDER, member, &own, &[certificate]).unwrap()
    }

    fn judged(shown: &[u8]) -> Result<CertifiedRole, NotCertified> {
        schema().judge(&FOUNDER, &MEMBER, shown, NOW)
    }

    #[test]
    fn roles_are_those_of_certified_names() {
        let far = NOW + 20_000_000;
        let standing = |name| judged(&shown_by(name, &MEMBER, far)).unwrap();
        assert!(standing("/org/staff/bob").writes && !standing("/org/guest/carol").writes);
        // The earliest end among all certificates counts, the anchor's included.
        assert_eq!(standing("/org/staff/bob").until_ms, NOW + 9_001_000);
        let soon = judged(&shown_by("/org/staff/bob", &MEMBER, NOW + 5_000)).unwrap();
        assert_eq!(soon, CertifiedRole { writes: true, until_ms: NOW + 6_000 });
        let why = judged(&shown_by("/org/other/x", &MEMBER, far)).unwrap_err().to_string();
        assert!(
            why.contains("/org/other/x/KEY/5/org/v=1 may not be signed by /org/KEY/1"),
            "{why}"
        );
        // The voucher is good only in this founder's group, and for this key.
        let shown = shown_by("/org/staff/bob", &MEMBER, far);
        let other = PublisherId([3; 32]);
        for (founder, member) in [(&other, &MEMBER), (&FOUNDER, &other)] {
            let judged = schema().judge(founder, member, &shown, NOW);
            assert!(matches!(judged, Err(NotCertified::Malformed)));
        }
        assert!(matches!(judged(&[]), Err(NotCertified::Nothing)));
    }

    /// The member's key was certified anew after its vouchers were made, or the first of its certificates has expired.
    #[test]
    fn any_valid_certificate_of_the_key_is_enough() {
        let far = NOW + 20_000_000;
        let bob = signer("/org/staff/bob", 5);
        let current = issued(&bob, &root(), far);
        let seed = [5; 32];
        let names_another = Signer::ed25519(&seed, "/org/staff/bob/KEY/5/old/v=9".parse().unwrap());
        let shown =
            present(&FOUNDER, &MEMBER, &names_another, std::slice::from_ref(&current)).unwrap();
        assert!(judged(&shown).unwrap().writes);
        let (over, own) =
            (issued(&bob, &root(), NOW - 5_000), self_signed(&bob, 1, until(far)).unwrap());
        for by in [&bob, &names_another] {
            let all = [over.clone(), own.clone(), current.clone()];
            assert!(judged(&present(&FOUNDER, &MEMBER, by, &all).unwrap()).unwrap().writes);
        }
    }

    #[test]
    fn broken_chains_are_refused_with_the_certificates_name() {
        let far = NOW + 9_000_000;
        let bob = signer("/org/staff/bob", 5);
        let flaw = |certificates: &[Vec<u8>]| match judged(
            &present(&FOUNDER, &MEMBER, &bob, certificates).unwrap(),
        ) {
            Err(NotCertified::Chain(ChainError { name, flaw })) => (name.to_string(), flaw),
            other => panic!("{other:?}"),
        };
        let name = "/org/staff/bob/KEY/5/org/v=1".to_owned();
        let expired = flaw(&[issued(&bob, &root(), NOW - 5_000)]);
        assert!(matches!(&expired, (of, ChainFlaw::Expired(_)) if *of == name), "{expired:?}");
        let early = ValidityPeriod { not_before_ms: NOW + 5_000, not_after_ms: far };
        assert!(matches!(flaw(&[self_signed(&bob, 1, early).unwrap()]).1, ChainFlaw::NotYet(_)));
        assert_eq!(flaw(&[self_signed(&bob, 1, until(far)).unwrap()]).1, ChainFlaw::Untrusted);
        assert_eq!(flaw(&[]).1, ChainFlaw::Missing);
        // Another key has the root's name, or the certificate is the owner's own.
        let wrong = flaw(&[issued(&bob, &signer("/org", 9), far)]).1;
        assert!(
            matches!(wrong, ChainFlaw::NoKeyName(_) | ChainFlaw::Trust(_) | ChainFlaw::Missing),
            "{wrong:?}"
        );
        let teams: Vec<Signer> =
            (0..8).map(|n| signer(&format!("/org/team/{n}"), 10 + n)).collect();
        let (a, b) = (&teams[0], &teams[1]);
        let circle = [issued(&bob, a, far), issued(a, b, far), issued(b, a, far)];
        assert!(matches!(flaw(&circle).1, ChainFlaw::Loop(_)));
        let chain = |teams: &[Signer]| {
            let mut chain = vec![issued(&bob, &teams[0], far)];
            chain.extend(teams.windows(2).map(|two| issued(&two[0], &two[1], far)));
            chain.push(issued(teams.last().unwrap(), &root(), far));
            chain
        };
        assert!(judged(&present(&FOUNDER, &MEMBER, &bob, &chain(&teams[..7])).unwrap()).is_ok());
        let long = present(&FOUNDER, &MEMBER, &bob, &chain(&teams));
        assert!(matches!(long, Err(PartTooLong::Certificates)), "nine are more than eight");
        // A certificate of another owner, without its key.
        let eve = Signer::ed25519(&[66; 32], "/org/staff/bob/KEY/5".parse().unwrap());
        let stolen = present(&FOUNDER, &MEMBER, &eve, &[issued(&bob, &root(), far)]).unwrap();
        let refused = judged(&stolen).unwrap_err();
        let NotCertified::Chain(ChainError { name, flaw }) = &refused else { panic!("{refused}") };
        assert_eq!(*flaw, ChainFlaw::Trust(TrustError::BadSignature));
        assert!(name.to_string().starts_with("/32=sync/"), "{name}");
    }

    #[test]
    fn flipped_bits_give_a_member_no_further_rights() {
        let shown = shown_by("/org/guest/carol", &MEMBER, NOW + 5_000);
        let expected = judged(&shown).unwrap();
        for bit in 0..shown.len() * 8 {
            let mut bad = shown.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok(standing) = judged(&bad) {
                assert_eq!(standing, expected, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_role_schema_survives_encoding_and_truncation_fails() {
        let schema = schema();
        assert_eq!(RoleSchema::read(schema.as_bytes()), Some(schema.clone()));
        for len in 0..schema.as_bytes().len() {
            assert_eq!(RoleSchema::read(&schema.as_bytes()[..len]), None);
        }
        let anchor = || self_signed(&root(), 1, until(NOW)).unwrap();
        let rules = rules();
        for anchors in [vec![], vec![anchor(); 9], vec![b"x".to_vec()]] {
            assert!(matches!(RoleSchema::new(&rules, &anchors), Err(PartTooLong::Schema)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = (RoleSchema::read(&bytes), judged(&bytes));
        }
    }
}
