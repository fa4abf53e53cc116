//! A publication in memory.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;

use xylem_hash::Hash;
use xylem_object::{
    Manifest, ObjectId, ObjectSource, Publication, PublicationKind, PublisherKey, ServeOutcome,
    sign_manifest,
};
use xylem_packet::{Data, Interest, InterestBuilder, Name, NameRef};
use xylem_tree::{Geometry, NodeSource, Outboard, SegmentIndex, SegmentSize, TreeKind};

pub(crate) fn key() -> PublisherKey {
    PublisherKey::from_bytes(&[7; 32])
}

pub(crate) fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

pub(crate) fn publish(prefix: &Name, manifest: &Manifest) -> Publication {
    let packet = sign_manifest(manifest, prefix.as_ref(), &key()).unwrap();
    Publication::new(prefix.clone(), packet, &key().public()).unwrap()
}

/// Objects in memory with their outboards. It counts reads, and can fail or lack segments.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) objects: BTreeMap<ObjectId, (Vec<u8>, Outboard)>,
    pub(crate) node_reads: usize,
    pub(crate) content_reads: usize,
    pub(crate) gives_roots: bool,
    pub(crate) broken: bool,
    pub(crate) missing: Option<SegmentIndex>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Memory {
    pub(crate) fn add(&mut self, object: ObjectId, content: &[u8], segment: SegmentSize) -> Hash {
        self.add_kind(object, content, segment, TreeKind::Blake3)
    }

    pub(crate) fn add_kind(
        &mut self,
        object: ObjectId,
        content: &[u8],
        segment: SegmentSize,
        kind: TreeKind,
    ) -> Hash {
        let outboard = Outboard::of_kind(content, segment, kind);
        let root = outboard.root();
        self.objects.insert(object, (content.to_vec(), outboard));
        root
    }
}

impl ObjectSource for Memory {
    type Error = Broken;

    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        assert_ne!(object, ObjectId::Root, "the manifest's to say");
        Some(*self.objects.get(&object)?.1.geometry())
    }

    fn read_content(
        &mut self,
        object: ObjectId,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Broken> {
        if self.broken {
            return Err(Broken);
        }
        self.content_reads += 1;
        out.copy_from_slice(&self.objects[&object].0[offset as usize..][..out.len()]);
        Ok(())
    }

    fn read_nodes(&mut self, object: ObjectId, slot: u64, out: &mut [u8]) -> Result<(), Broken> {
        self.node_reads += 1;
        self.objects[&object].1.as_bytes().read_nodes(slot, out).map_err(|_| Broken)
    }

    fn root(&mut self, object: ObjectId) -> Option<Hash> {
        if self.gives_roots { Some(self.objects.get(&object)?.1.root()) } else { None }
    }

    fn has_segment(&mut self, _: ObjectId, index: SegmentIndex) -> bool {
        self.missing != Some(index)
    }
}

/// Answers an Interest for `name`: the result and the packet.
pub(crate) fn ask<S: ObjectSource>(
    publication: &mut Publication,
    source: &mut S,
    name: NameRef<'_>,
    can_be_prefix: bool,
) -> Result<(ServeOutcome, Vec<u8>), S::Error> {
    let mut wire = Vec::new();
    InterestBuilder::new(name)
        .can_be_prefix(can_be_prefix)
        .nonce([1, 2, 3, 4])
        .encode(&mut wire)
        .unwrap();
    let mut out = b"before".to_vec();
    let answer = publication.answer(&Interest::decode(&wire).unwrap(), source, &mut out)?;
    let packet = out.split_off(6);
    assert_eq!(out, b"before");
    assert_eq!(packet.is_empty(), answer != ServeOutcome::Data);
    if answer == ServeOutcome::Data {
        let data = Data::decode(&packet).unwrap();
        assert!(if can_be_prefix { name.is_prefix_of(data.name()) } else { name == data.name() });
    }
    Ok((answer, packet))
}

/// A directory's manifest with a root that no test uses.
pub(crate) fn directory(root: Hash, size: u64, segment: SegmentSize) -> Manifest {
    Manifest {
        kind: PublicationKind::Directory,
        segment,
        file_count: 9,
        ..Manifest::file(root, size, b"d")
    }
}
