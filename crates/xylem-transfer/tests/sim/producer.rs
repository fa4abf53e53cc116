//! Producers: a real `Publication` over bytes in memory, with dishonest behaviours that change its answers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;

use xylem_hash::Hash;
use xylem_object::naming::PublicationRequest;
use xylem_object::publication::{ObjectSource, Publication, ServeOutcome};
use xylem_object::{Manifest, ObjectId, PublicationKind, PublisherKey, naming, sign_manifest};
use xylem_packet::{
    Component, Data, DataBuilder, KeyLocator, Name, NameRef, Packet, SignatureType, tlv,
};
use xylem_sim::{Rng, noise};
use xylem_tree::{Geometry, NODE_LEN, OutboardBuilder, SegmentIndex, SegmentSize};

/// One object: its bytes, its outboard and its root.
pub struct Truth {
    pub content: Vec<u8>,
    pub nodes: Vec<u8>,
    pub geometry: Geometry,
    pub root: Hash,
}

impl Truth {
    pub fn new(content: Vec<u8>) -> Self {
        let geometry = Geometry::new(content.len() as u64, SegmentSize::DEFAULT);
        let mut nodes = vec![0; geometry.slots() as usize * NODE_LEN];
        let mut builder = OutboardBuilder::new(geometry, |first: u64, run: &[u8]| {
            let at = first as usize * NODE_LEN;
            nodes[at..at + run.len()].copy_from_slice(run);
            Ok::<(), Infallible>(())
        });
        builder.update(&content).expect("as many bytes as measured");
        let root = builder.finish().expect("all bytes came");
        Self { content, nodes, geometry, root }
    }

    pub fn random(len: usize, seed: u64) -> Self {
        Self::new(noise(len, seed))
    }
}

/// The published content.
#[derive(Clone)]
pub struct Original {
    pub prefix: Name,
    pub key: Rc<PublisherKey>,
    pub manifest: Manifest,
    pub objects: Rc<HashMap<ObjectId, Truth>>,
}

impl Original {
    pub fn file(len: usize) -> Self {
        Self::of(
            HashMap::from([(ObjectId::Root, Truth::random(len, len as u64))]),
            PublicationKind::File,
        )
    }

    /// A directory with an arbitrary listing; only its files matter here.
    pub fn directory(files: &[usize]) -> Self {
        let mut objects = HashMap::from([(ObjectId::Root, Truth::random(30 * files.len(), 1))]);
        for (i, len) in files.iter().enumerate() {
            objects.insert(ObjectId::File(i as u64), Truth::random(*len, i as u64 + 2));
        }
        Self::of(objects, PublicationKind::Directory)
    }

    fn of(objects: HashMap<ObjectId, Truth>, kind: PublicationKind) -> Self {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let object = naming::default_name(&key.public(), b"original");
        let prefix = naming::versioned(object.as_ref(), 1_700_000_000_000_000).expect("short");
        let root = &objects[&ObjectId::Root];
        let mut manifest = Manifest::file(root.root, root.geometry.size(), b"original");
        manifest.kind = kind;
        Self { prefix, key: Rc::new(key), manifest, objects: Rc::new(objects) }
    }
}

impl ObjectSource for &Original {
    type Error = Infallible;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        Some(self.objects.get(&object)?.geometry)
    }
    fn read_content(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Infallible> {
        out.copy_from_slice(&self.objects[&object].content[offset as usize..][..out.len()]);
        Ok(())
    }
    fn read_nodes(
        &mut self,
        object: ObjectId,
        first_slot: u64,
        out: &mut [u8],
    ) -> Result<(), Infallible> {
        let at = first_slot as usize * NODE_LEN;
        out.copy_from_slice(&self.objects[&object].nodes[at..at + out.len()]);
        Ok(())
    }
}

/// How a producer answers requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Behaviour {
    Honest,
    /// Changes one byte of each segment.
    WrongByte,
    /// Changes one byte of each proof.
    WrongProof,
    /// Leaves out one sibling from each proof.
    ShortProof,
    /// Sends wrong bytes in every tile and right ones in every segment.
    WrongTile,
    /// Damages the manifest's signature.
    BadSignature,
    /// Sends a manifest that another publisher signed.
    OtherPublisher,
    /// Sends the publisher's manifest of another file.
    OtherManifest,
    /// Cuts the end off each packet.
    Truncated,
    /// Adds bytes to each segment.
    Oversized,
    /// Removes bytes from each segment.
    Undersized,
    /// States a wrong last segment in each segment.
    WrongFinalBlock,
    /// Answers each segment with another good segment.
    OtherNames,
    /// Answers each segment with a good one of another object, under the requested name.
    OtherObject,
    /// Never answers.
    Silent,
    /// Is honest for this many Interests, then silent.
    DiesAfter(u32),
    /// Does not know the question of which segments it has.
    Older,
    /// Sends the manifest and refuses the rest.
    RefusesSegments,
    /// Refuses each segment whose number is a multiple of this.
    RefusesEach(u64),
    /// Refuses everything.
    RefusesAll,
    /// Sends each answer twice, and an unrequested packet.
    Chatty,
    /// Changes one to four bytes of each packet and cuts some packets. Any byte may be hit.
    Mangles,
}

pub(crate) enum Reply {
    Data(Vec<u8>),
    Nack,
}

pub(crate) struct Producer {
    pub original: Original,
    pub behaviour: Behaviour,
    publication: Publication,
    pub asked: u32,
}

impl Producer {
    pub(crate) fn new(original: Original, behaviour: Behaviour) -> Self {
        let signed = |manifest: &Manifest, key: &PublisherKey| {
            sign_manifest(manifest, original.prefix.as_ref(), key).expect("a valid manifest")
        };
        let packet = signed(&original.manifest, &original.key);
        let publication = Publication::new(original.prefix.clone(), packet, &original.key.public())
            .expect("signed just now");
        Self { original, behaviour, publication, asked: 0 }
    }

    pub(crate) fn reply(&mut self, packet: &[u8]) -> Vec<Reply> {
        let Ok(Packet::Interest(interest)) = Packet::decode(packet) else { panic!("no Interest") };
        self.asked += 1;
        let is_manifest = interest.name().to_string().ends_with("/_root");
        match self.behaviour {
            Behaviour::Silent => return vec![],
            Behaviour::DiesAfter(n) if self.asked > n => return vec![],
            Behaviour::Older if interest.name().to_string().contains("32=have") => return vec![],
            Behaviour::RefusesAll => return vec![Reply::Nack],
            Behaviour::RefusesSegments if !is_manifest => return vec![Reply::Nack],
            Behaviour::RefusesEach(step)
                if self.segment_in(interest.name()).is_some_and(|i| i % step == 0) =>
            {
                return vec![Reply::Nack];
            }
            _ => {}
        }
        let mut out = Vec::new();
        let mut source = &self.original;
        match self.publication.answer(&interest, &mut source, &mut out) {
            Ok(ServeOutcome::Data) => {}
            Ok(_) => return vec![Reply::Nack],
            Err(never) => match never {},
        }
        if self.behaviour == Behaviour::Mangles {
            return vec![Reply::Data(mangle(out, &mut Rng::new(u64::from(self.asked))))];
        }
        if is_manifest { self.spoil_manifest(out) } else { self.spoil(out) }
    }

    fn segment_in(&self, name: NameRef<'_>) -> Option<u64> {
        match naming::parse(self.original.prefix.as_ref(), name)? {
            PublicationRequest::Segment { index, .. } => Some(index.0),
            _ => None,
        }
    }

    fn spoil_manifest(&self, mut out: Vec<u8>) -> Vec<Reply> {
        let prefix = self.original.prefix.as_ref();
        match self.behaviour {
            Behaviour::BadSignature => *out.last_mut().unwrap() ^= 1,
            Behaviour::OtherPublisher => {
                let other = PublisherKey::from_bytes(&[8; 32]);
                out = sign_manifest(&self.original.manifest, prefix, &other).unwrap();
            }
            Behaviour::OtherManifest => {
                let manifest = Manifest::file(xylem_hash::hash(b"other"), 5, b"other");
                out = sign_manifest(&manifest, prefix, &self.original.key).unwrap();
            }
            _ => {}
        }
        vec![Reply::Data(out)]
    }

    /// Content and proof of a segment of another object than the one that `name` asks for.
    fn of_another(&mut self, name: NameRef<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
        let prefix = self.original.prefix.clone();
        let Some(PublicationRequest::Segment { object, .. }) = naming::parse(prefix.as_ref(), name)
        else {
            return None;
        };
        let mut others: Vec<ObjectId> = self.original.objects.keys().copied().collect();
        others.retain(|other| *other != object);
        others.sort_unstable();
        let other = *others.get(self.asked as usize % others.len().max(1))?;
        let request = PublicationRequest::Segment { object: other, index: SegmentIndex(0) };
        let name = naming::encode(prefix.as_ref(), &request);
        let (mut wire, mut out) = (Vec::new(), Vec::new());
        xylem_packet::InterestBuilder::new(name.as_ref()).encode(&mut wire).ok()?;
        let Ok(Packet::Interest(interest)) = Packet::decode(&wire) else { return None };
        self.publication.answer(&interest, &mut &self.original, &mut out).ok()?;
        let data = Data::decode(&out).ok()?;
        Some((data.content().to_vec(), data.signature_value().to_vec()))
    }

    fn spoil(&mut self, mut out: Vec<u8>) -> Vec<Reply> {
        let data = Data::decode(&out).expect("made just now");
        let content = data.content_range();
        let is_tile = data.meta().final_block_id.is_none();
        let signature = data.signature_value().to_vec();
        let body = data.content().to_vec();
        let last = SegmentIndex(
            data.meta()
                .final_block_id
                .and_then(|c| c.as_number_of(tlv::types::SEGMENT_COMPONENT))
                .unwrap_or(0),
        );
        let name = data.name().to_name();
        let rebuild = |content: &[u8], last: u64, signature: &[u8]| {
            let mut out = Vec::new();
            let locator = Name::from_uri("/x").unwrap();
            DataBuilder::new(name.as_ref())
                .final_block_id(Component::segment(last))
                .signature(SignatureType::BLAKE3_MERKLE, KeyLocator::Name(locator.as_ref()))
                .encode(&mut out, content, |_, value| value.extend_from_slice(signature))
                .expect("small enough");
            out
        };
        match self.behaviour {
            Behaviour::WrongByte if !is_tile => out[content.start + body.len() / 2] ^= 0x40,
            Behaviour::WrongTile if is_tile => out[content.start + 5] ^= 1,
            Behaviour::WrongProof => *out.last_mut().unwrap() ^= 1,
            Behaviour::ShortProof if !is_tile => {
                out = rebuild(&body, last.0, &signature[..signature.len() - 32]);
            }
            Behaviour::Truncated => out.truncate(out.len() - 10),
            Behaviour::Oversized if !is_tile => {
                out = rebuild(&[&body[..], &[0; 10]].concat(), last.0, &signature);
            }
            Behaviour::Undersized if !is_tile => {
                out = rebuild(&body[..body.len() / 2], last.0, &signature);
            }
            Behaviour::WrongFinalBlock if !is_tile => out = rebuild(&body, last.0 + 1, &signature),
            Behaviour::OtherObject if !is_tile => {
                if let Some((content, signature)) = self.of_another(name.as_ref()) {
                    out = rebuild(&content, last.0, &signature);
                }
            }
            Behaviour::OtherNames if !is_tile => {
                let mut other = name.as_ref().parent().to_name();
                let number = name
                    .get(name.len() - 1)
                    .and_then(|c| c.as_number_of(tlv::types::SEGMENT_COMPONENT))
                    .unwrap_or(0);
                other.push(Component::segment((number + 1_000_000) % (last.0 + 1)));
                let mut wire = Vec::new();
                xylem_packet::InterestBuilder::new(other.as_ref()).encode(&mut wire).unwrap();
                let Ok(Packet::Interest(interest)) = Packet::decode(&wire) else { panic!() };
                out.clear();
                let mut source = &self.original;
                self.publication.answer(&interest, &mut source, &mut out).unwrap();
            }
            Behaviour::Chatty => {
                let stray = rebuild(b"stray", 3, &signature);
                return vec![Reply::Data(out.clone()), Reply::Data(out), Reply::Data(stray)];
            }
            _ => {}
        }
        vec![Reply::Data(out)]
    }
}

fn mangle(mut packet: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    // Half of the changed bytes lie in the first and the last 200, where the structure is.
    for _ in 0..1 + rng.below(4) {
        let len = packet.len() as u64;
        let at = match rng.below(4) {
            0 => rng.below(len.min(200)),
            1 => len - 1 - rng.below(len.min(200)),
            _ => rng.below(len),
        };
        packet[at as usize] ^= 1 + rng.below(255) as u8;
    }
    if rng.chance(0.1) {
        packet.truncate(rng.below(packet.len() as u64) as usize);
    }
    packet
}
