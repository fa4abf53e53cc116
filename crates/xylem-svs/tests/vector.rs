//! State vectors: their bytes, their algebra, and which bytes are refused.

use std::collections::HashMap;

use proptest::prelude::*;
use xylem_packet::{DecodeError, Name, tlv};
use xylem_svs::{GroupMember, MAX_ENTRIES, MAX_SEQUENCE, StateVector, SyncVersion, VectorError};

fn member(name: &str, boot: u64) -> GroupMember {
    GroupMember::new(Name::from_uri(name).unwrap(), boot)
}

fn encoded(vector: &StateVector, version: SyncVersion) -> Vec<u8> {
    let mut wire = Vec::new();
    vector.encode(version, &mut wire);
    wire
}

fn element(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    tlv::write_element(&mut out, typ, value);
    out
}

#[test]
fn the_bytes_are_those_of_the_specification() {
    let two: StateVector = [(member("/b", 0), 300), (member("/a", 0), 7)].into_iter().collect();
    assert_eq!(
        encoded(&two, SyncVersion::V2),
        b"\xc9\x15\xca\x08\x07\x03\x08\x01a\xcc\x01\x07\
          \xca\x09\x07\x03\x08\x01b\xcc\x02\x01\x2c"
    );
    // Two lives of one member stand in one entry, the earlier first.
    let lives: StateVector = [(member("/a", 600), 1), (member("/a", 5), 9)].into_iter().collect();
    assert_eq!(
        encoded(&lives, SyncVersion::V3),
        b"\xc9\x18\xca\x16\x07\x03\x08\x01a\
          \xd2\x06\xd4\x01\x05\xd6\x01\x09\xd2\x07\xd4\x02\x02\x58\xd6\x01\x01"
    );
}

#[test]
fn names_in_any_order_and_twice_are_merged() {
    let entry = |name: &str, n| {
        let mut value = Vec::new();
        Name::from_uri(name).unwrap().encode(&mut value);
        tlv::write_number_element(&mut value, 204, n);
        element(202, &value)
    };
    let wire =
        element(201, &[entry("/b", 3), entry("/a", 2), entry("/b", 1), entry("/c", 0)].concat());
    let vector = StateVector::decode(&wire, SyncVersion::V2).unwrap();
    let expected = [(member("/a", 0), 2), (member("/b", 0), 3)].into_iter().collect();
    assert_eq!(vector, expected);
    // Data of the publish-subscribe layer after the vector are ignored.
    let behind = [wire, element(205, b"mapping")].concat();
    assert_eq!(StateVector::decode(&behind, SyncVersion::V2), Ok(expected));
}

#[test]
fn an_invalid_vector_is_refused() {
    let name = b"\x07\x03\x08\x01a";
    let v2 = |rest: &[u8]| element(201, &element(202, &[name, rest].concat()));
    let refused = |wire: &[u8], version| StateVector::decode(wire, version).unwrap_err();
    let tlv = |error| VectorError::Tlv(error);
    assert_eq!(refused(b"", SyncVersion::V2), tlv(DecodeError::Truncated));
    assert_eq!(
        refused(b"\x06\x00", SyncVersion::V3),
        tlv(DecodeError::WrongType { expected: 201, found: 6 })
    );
    assert_eq!(
        refused(&element(201, &element(202, b"")), SyncVersion::V3),
        tlv(DecodeError::Truncated)
    );
    assert_eq!(
        refused(&v2(b"\xcc\x03abc"), SyncVersion::V2),
        tlv(DecodeError::BadLength { typ: 204, len: 3 })
    );
    assert_eq!(
        refused(&v2(b"\xcc\x01\x01\xcc\x01\x02"), SyncVersion::V2),
        tlv(DecodeError::Repeated { inside: 202, typ: 204 })
    );
    assert_eq!(
        refused(&v2(b""), SyncVersion::V2),
        tlv(DecodeError::Missing { inside: 202, typ: 204 })
    );
    // A number needs a time; a name without numbers is empty.
    assert_eq!(
        refused(&v2(b"\xd2\x03\xd6\x01\x01"), SyncVersion::V3),
        tlv(DecodeError::WrongType { expected: 212, found: 214 })
    );
    assert_eq!(StateVector::decode(&v2(b""), SyncVersion::V3), Ok(StateVector::new()));
    // Critical elements, and one that is not critical.
    assert_eq!(
        refused(&v2(b"\xcb\x00\xcc\x01\x01"), SyncVersion::V2),
        tlv(DecodeError::UnknownCritical { inside: 202, typ: 203 })
    );
    assert!(StateVector::decode(&v2(b"\xdc\x00\xcc\x01\x01"), SyncVersion::V2).is_ok());
    let mut large = name.to_vec();
    tlv::write_number_element(&mut large, 204, MAX_SEQUENCE + 1);
    assert_eq!(
        refused(&element(201, &element(202, &large)), SyncVersion::V2),
        VectorError::Sequence(MAX_SEQUENCE + 1)
    );
}

/// Refused at the first excess entry: no other entry is stored or parsed.
#[test]
fn a_vector_of_a_million_members_is_refused() {
    let entries = |count: u32| {
        let one = |n: u32| {
            let mut value = element(7, &element(8, &n.to_be_bytes()));
            tlv::write_number_element(&mut value, 204, 1);
            element(202, &value)
        };
        element(201, &(0..count).flat_map(one).collect::<Vec<_>>())
    };
    let most = u32::try_from(MAX_ENTRIES).unwrap();
    let vector = StateVector::decode(&entries(most), SyncVersion::V2).unwrap();
    assert_eq!(vector.len(), MAX_ENTRIES);
    let mut million = entries(1_000_000);
    // The last element would be another error, if it were reached.
    let last = million.len() - 1;
    million[last - 2] = 203;
    assert_eq!(StateVector::decode(&million, SyncVersion::V2), Err(VectorError::TooMany));
    // The same in one entry of version 3: a million lives of one member, and one number that repeats.
    let mut lives = element(7, &element(8, b"a"));
    lives.extend(b"\xd2\x06\xd4\x01\x05\xd6\x01\x09".repeat(1_000_000));
    let wire = element(201, &element(202, &lives));
    assert_eq!(StateVector::decode(&wire, SyncVersion::V3), Err(VectorError::TooMany));
}

fn vectors() -> impl Strategy<Value = Vec<(GroupMember, u64)>> {
    let entry = (0..6_usize, 0..4_u64, 0..20_u64).prop_map(|(name, boot, n)| {
        (member(["/a", "/b", "/a/b", "/c", "/ca", "/%00"][name], boot), n)
    });
    prop::collection::vec(entry, 0..12)
}

/// A slow and obvious implementation.
fn naive(lists: &[&[(GroupMember, u64)]]) -> HashMap<GroupMember, u64> {
    let mut all = HashMap::new();
    for (member, n) in lists.iter().copied().flatten() {
        let known: &mut u64 = all.entry(member.clone()).or_default();
        *known = (*known).max(*n);
    }
    all.retain(|_, n| *n > 0);
    all
}

fn merged(vectors: &[&StateVector]) -> StateVector {
    let mut all = StateVector::new();
    vectors.iter().for_each(|vector| all.merge(vector));
    all
}

proptest! {
    #[test]
    fn vectors_are_a_join_semilattice(a in vectors(), b in vectors(), c in vectors()) {
        let of = |list: &Vec<(GroupMember, u64)>| list.iter().cloned().collect::<StateVector>();
        let (va, vb, vc) = (of(&a), of(&b), of(&c));
        prop_assert_eq!(merged(&[&va, &vb]), merged(&[&vb, &va]));
        prop_assert_eq!(
            merged(&[&merged(&[&va, &vb]), &vc]),
            merged(&[&va, &merged(&[&vb, &vc])])
        );
        prop_assert_eq!(merged(&[&va, &va]), va.clone());
        let all = merged(&[&va, &vb, &vc]);
        let found: HashMap<_, _> = all.iter().map(|(member, n)| (member.clone(), n)).collect();
        prop_assert_eq!(found, naive(&[&a, &b, &c]));
        for (member, n) in va.iter() {
            prop_assert!(all.get(member) >= n);
        }
    }

    #[test]
    fn encoded_vectors_are_decoded(list in vectors()) {
        let vector: StateVector = list.into_iter().collect();
        let again = StateVector::decode(&encoded(&vector, SyncVersion::V3), SyncVersion::V3);
        prop_assert_eq!(again, Ok(vector.clone()));
        let names: StateVector =
            vector.iter().map(|(m, n)| (GroupMember::new(m.name.clone(), 0), n)).collect();
        for version in [SyncVersion::V1, SyncVersion::V2] {
            let again = StateVector::decode(&encoded(&names, version), version);
            prop_assert_eq!(again, Ok(names.clone()));
        }
    }

    #[test]
    fn any_bytes_give_a_vector_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for version in [SyncVersion::V1, SyncVersion::V2, SyncVersion::V3] {
            let _ = StateVector::decode(&bytes, version);
            let _ = StateVector::decode(&element(201, &element(202, &bytes)), version);
        }
    }
}
