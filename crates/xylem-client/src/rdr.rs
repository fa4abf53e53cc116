//! RDR: the small packet that names the newest version of an object (docs/spec/rdr.md).
//!
//! The answer to an Interest for `NAME/32=metadata` with CanBePrefix and MustBeFresh is a Data named
//! `NAME/32=metadata/v=V/seg=0`. Its content is the name `NAME/v=V`. NDNd adds the last segment's component, and file
//! servers add sizes; other programs read the name and skip the rest.

use xylem_packet::tlv::{self, TlvReader, types};
use xylem_packet::{Component, DecodeError, Name, NameRef};

/// The keyword of metadata packets.
pub const METADATA: &[u8] = b"metadata";
/// Type numbers of fields that NDNd and NDNts' file servers add to the name.
const SEGMENT_SIZE: u32 = 0xF500;
const SIZE: u32 = 0xF502;

/// The content of a metadata packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// The object's name with its version.
    pub name: NameRef<'a>,
    /// The last segment's component.
    pub final_block_id: Option<Component<'a>>,
    /// Bytes of content in every segment but the last.
    pub segment_size: Option<u64>,
    /// Bytes of content in all.
    pub size: Option<u64>,
}

impl<'a> Metadata<'a> {
    /// Decodes the content of a metadata packet. The name comes first. Unknown fields are skipped whatever their
    /// number, as NDNts and NDNd do.
    ///
    /// # Errors
    /// If the name is missing or empty, or a field is malformed or repeated.
    pub fn decode(content: &'a [u8]) -> Result<Self, DecodeError> {
        let inside = types::CONTENT;
        let missing = DecodeError::Missing { inside, typ: types::NAME };
        let mut reader = TlvReader::new(content);
        let first = reader.next_element()?.filter(|e| e.typ == types::NAME);
        let name = NameRef::from_value(first.ok_or(missing)?.value)?;
        if name.is_empty() {
            return Err(missing);
        }
        let mut found = Self { name, final_block_id: None, segment_size: None, size: None };
        while let Some(element) = reader.next_element()? {
            let (typ, value) = (element.typ, element.value);
            let number =
                || tlv::read_number(value).ok_or(DecodeError::BadLength { typ, len: value.len() });
            let repeated = match typ {
                types::FINAL_BLOCK_ID => found.final_block_id.replace(component(value)?).is_some(),
                SEGMENT_SIZE => found.segment_size.replace(number()?).is_some(),
                SIZE => found.size.replace(number()?).is_some(),
                _ => false,
            };
            if repeated {
                return Err(DecodeError::Repeated { inside, typ });
            }
        }
        Ok(found)
    }

    /// Appends the content of a metadata packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.name.encode(out);
        if let Some(last) = &self.final_block_id {
            let mut component = Vec::new();
            last.encode(&mut component);
            tlv::write_element(out, types::FINAL_BLOCK_ID, &component);
        }
        for (typ, number) in [(SEGMENT_SIZE, self.segment_size), (SIZE, self.size)] {
            if let Some(number) = number {
                tlv::write_number_element(out, typ, number);
            }
        }
    }

    /// The last segment's number, if the component is present and holds a number.
    pub fn last_segment(&self) -> Option<u64> {
        self.final_block_id.as_ref()?.as_number_of(types::SEGMENT_COMPONENT)
    }
}

/// One component and nothing after it.
fn component(value: &[u8]) -> Result<Component<'_>, DecodeError> {
    let inside = types::FINAL_BLOCK_ID;
    let name = NameRef::from_value(value)?;
    match (name.len(), name.get(0)) {
        (1, Some(component)) => Ok(component),
        _ => Err(DecodeError::Missing { inside, typ: types::GENERIC_COMPONENT }),
    }
}

/// `NAME/32=metadata`.
pub(crate) fn discovery_name(object: NameRef<'_>) -> Name {
    object.child(Component::keyword(METADATA))
}

/// The version at a name's end; any number is valid.
pub(crate) fn version_of(name: NameRef<'_>) -> Option<u64> {
    name.last()?.as_number_of(types::VERSION_COMPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ndnd_python_and_file_servers_send() {
        let name: Name = "/a/v=1".parse().unwrap();
        let mut content = Vec::new();
        name.encode(&mut content);
        let bare = Metadata::decode(&content).unwrap();
        assert_eq!((bare.name, bare.last_segment(), bare.size), (name.as_ref(), None, None));
        // NDNd: the object's FinalBlockId. NDNts' file server: sizes, mode and times as well.
        content.extend([0x1a, 3, 0x32, 1, 7]);
        content.extend([0xfd, 0xf5, 0x00, 2, 0x1f, 0x40, 0xfd, 0xf5, 0x02, 1, 9]);
        content.extend([0xfd, 0xf5, 0x04, 1, 0, 0xfd, 0xf5, 0x0d, 0]);
        let rich = Metadata::decode(&content).unwrap();
        assert_eq!(
            (rich.last_segment(), rich.segment_size, rich.size),
            (Some(7), Some(8000), Some(9))
        );
        let mut again = Vec::new();
        rich.encode(&mut again);
        assert_eq!(Metadata::decode(&again).unwrap(), rich);
    }

    #[test]
    fn damaged_ones_are_refused() {
        let mut good = Vec::new();
        "/a/v=1".parse::<Name>().unwrap().encode(&mut good);
        for bad in [
            &[][..],
            &[7, 0],
            &[0x1a, 3, 0x32, 1, 7],
            &[7, 3, 8, 1],
            &[&good[..], &[0x1a, 0]].concat(),
            &[&good[..], &[0x1a, 3, 0x32, 1, 7, 0x1a, 3, 0x32, 1, 7]].concat(),
            &[&good[..], &[0xfd, 0xf5, 0x02, 3, 0, 0, 0]].concat(),
            &[&good[..], &[0x1a]].concat(),
        ] {
            assert!(Metadata::decode(bad).is_err(), "{bad:02x?}");
        }
    }
}
