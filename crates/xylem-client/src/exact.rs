//! Decides which packets answer a request for an object.
//!
//! The requests permit longer names (CanBePrefix). So a cache or producer may send anything below the name: another
//! object, a segment of one, a manifest, a certificate, a refusal. Exactly three kinds of names are answers for an
//! object, and only in packets with content.

use xylem_object::naming;
use xylem_packet::types::{IMPLICIT_SHA256_DIGEST, SEGMENT_COMPONENT, VERSION_COMPONENT};
use xylem_packet::{ContentType, Data, NameRef};

/// How a packet answers the question for an object O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectAnswer<'a> {
    /// `O/32=metadata/v=V/seg=0`.
    Metadata,
    /// `O/v=V/seg=I`, or `O/seg=I` of a publisher without versions: a segment of the name before the number.
    SegmentOf(NameRef<'a>),
    /// O itself.
    Whole,
}

impl<'a> ObjectAnswer<'a> {
    /// How `data` answers; `None` if it is for something else.
    pub(crate) fn of(object: NameRef<'_>, data: &Data<'a>) -> Option<Self> {
        if data.meta().content_type != ContentType::BLOB {
            return None;
        }
        let name = data.name();
        let last = object.last()?;
        if name == object
            || (last.typ() == IMPLICIT_SHA256_DIGEST
                && name == object.parent()
                && data.implicit_digest() == last.value())
        {
            return Some(Self::Whole);
        }
        if naming::is_metadata(object, name) {
            return Some(Self::Metadata);
        }
        name.last()?.as_number_of(SEGMENT_COMPONENT)?;
        let of = name.parent();
        let version = |of: NameRef<'_>| of.last()?.as_number_of(VERSION_COMPONENT);
        (of == object || (of.parent() == object && version(of).is_some()))
            .then_some(Self::SegmentOf(of))
    }
}

/// A description of a packet, for people.
pub(crate) fn describe(data: &Data<'_>) -> String {
    let name = data.name();
    match data.meta().content_type {
        ContentType::BLOB => format!("{name}"),
        ContentType::NACK => format!("{name}, a report of its producer that there is none"),
        ContentType::KEY => format!("{name}, a key, not content (ContentType 2)"),
        ContentType(other) => format!("{name}, not content (ContentType {other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::{Component, DataBuilder, Name};
    use xylem_sim::Rng;
    use xylem_trust::Signer;

    fn packet(name: NameRef<'_>, content_type: ContentType) -> Vec<u8> {
        let mut out = Vec::new();
        let builder = DataBuilder::new(name).content_type(content_type);
        Signer::digest_sha256().data(builder, b"what", &mut out).unwrap();
        out
    }

    fn answer(object: &str, name: &str) -> Option<String> {
        let (object, name): (Name, Name) = (object.parse().unwrap(), name.parse().unwrap());
        let packet = packet(name.as_ref(), ContentType::BLOB);
        let data = Data::decode(&packet).unwrap();
        ObjectAnswer::of(object.as_ref(), &data).map(|answer| match answer {
            ObjectAnswer::SegmentOf(of) => of.to_string(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn three_kinds_of_names_answer() {
        for (name, is) in [
            ("/conf", "Whole"),
            ("/conf/32=metadata/v=3/seg=0", "Metadata"),
            ("/conf/v=3/seg=0", "/conf/v=3"),
            ("/conf/v=3/seg=70000", "/conf/v=3"),
            ("/conf/seg=1", "/conf"),
        ] {
            assert_eq!(answer("/conf", name).as_deref(), Some(is), "{name}");
        }
        for name in [
            "/conf/drafts/secret",
            "/conf/drafts/seg=0",
            "/conf/drafts/v=1/seg=0",
            "/conf/v=1",
            "/conf/v=1/v=2/seg=0",
            "/conf/v=1/_root",
            "/conf/v=1/seg=0/seg=0",
            "/conf/v=1/32=file/seq=0/seg=0",
            "/conf/v=1/32=tree/seq=0/seq=0",
            "/conf/32=metadata",
            "/conf/32=metadata/v=1",
            "/conf/32=metadata/v=1/seg=1",
            "/conf/32=metadata/v=1/seg=0/x",
            "/conf/drafts/32=metadata/v=1/seg=0",
            "/conf/KEY/1/self/v=1",
            "/conf/8=v/seg=0",
            "/con",
            "/confs",
            "/conf/%00",
        ] {
            assert_eq!(answer("/conf", name), None, "{name}");
        }
    }

    #[test]
    fn packets_without_content_are_no_answers() {
        let object: Name = "/conf".parse().unwrap();
        for name in ["/conf", "/conf/v=1/seg=0", "/conf/32=metadata/v=1/seg=0"] {
            let name: Name = name.parse().unwrap();
            for content_type in 0..2000 {
                let packet = packet(name.as_ref(), ContentType(content_type));
                let data = Data::decode(&packet).unwrap();
                let answers = ObjectAnswer::of(object.as_ref(), &data).is_some();
                assert_eq!(answers, content_type == 0, "{name} {content_type}");
            }
        }
    }

    #[test]
    fn a_full_name_is_answered_by_its_packet() {
        let name: Name = "/conf".parse().unwrap();
        let packet = packet(name.as_ref(), ContentType::BLOB);
        let data = Data::decode(&packet).unwrap();
        let full = name.child(Component::implicit_digest(&data.implicit_digest()));
        assert_eq!(ObjectAnswer::of(full.as_ref(), &data), Some(ObjectAnswer::Whole));
        let other = name.child(Component::implicit_digest(&[1; 32]));
        assert_eq!(ObjectAnswer::of(other.as_ref(), &data), None);
    }

    /// A name's component by lot, of few kinds and values, so that exact forms are met too.
    fn component(chance: &mut Rng) -> Component<'static> {
        let number = chance.below(3);
        match chance.below(8) {
            0 => Component::segment(number),
            1 => Component::version(number),
            2 => Component::sequence(number),
            3 => Component::keyword(b"metadata"),
            4 => Component::keyword(b"file"),
            5 => Component::generic(b"_root"),
            6 => Component::generic(b"KEY"),
            _ => Component::generic([&b"a"[..], b"b", b"c"][number as usize]),
        }
    }

    #[test]
    fn other_names_below_the_object_never_answer() {
        let mut chance = Rng::new(15);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..50_000 {
            let mut object = Name::from_iter([Component::generic(b"o")]);
            for _ in 0..chance.below(3) {
                object.push(component(&mut chance));
            }
            let more: Vec<_> = (0..chance.below(5)).map(|_| component(&mut chance)).collect();
            let mut name = object.clone();
            for component in &more {
                name.push(*component);
            }
            let kinds: Vec<u32> = more.iter().map(Component::typ).collect();
            let exact = match (&kinds[..], more.first()) {
                ([], _) => Some("Whole"),
                ([SEGMENT_COMPONENT], _) | ([VERSION_COMPONENT, SEGMENT_COMPONENT], _) => {
                    Some("SegmentOf")
                }
                ([_, VERSION_COMPONENT, SEGMENT_COMPONENT], Some(first))
                    if *first == Component::keyword(b"metadata")
                        && more[2] == Component::segment(0) =>
                {
                    Some("Metadata")
                }
                _ => None,
            };
            let packet = packet(name.as_ref(), ContentType::BLOB);
            let found = ObjectAnswer::of(object.as_ref(), &Data::decode(&packet).unwrap());
            let found = found.map(|found| format!("{found:?}"));
            let right = match (&found, exact) {
                (Some(found), Some(exact)) => found.starts_with(exact),
                (found, exact) => found.is_none() && exact.is_none(),
            };
            assert!(right, "{object} asked, {name} came: {found:?}");
            *(if exact.is_some() { &mut taken } else { &mut refused }) += 1;
        }
        assert!(taken > 1_000 && refused > 1_000, "{taken} {refused}");
    }
}
