//! Any packet, rebuilt into a slice of any length, gives the same packet or `NoRoom`, and never a panic. The same holds
//! for names.
#![no_main]

use xylem_packet::{
    DataBuilder, EncodeError, FixedName, InterestBuilder, Name, NameRef, Packet, SignatureInfo,
};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[high, low], wire)) = input.split_first_chunk::<2>() else { return };
    let room = usize::from(u16::from_be_bytes([high, low])) % 9000;
    let mut memory = vec![0; room];
    if let Ok(uri) = std::str::from_utf8(wire) {
        // A name in an array equals the name in a vector, or does not fit.
        match (FixedName::<64>::from_uri(uri), Name::from_uri(uri)) {
            (Ok(fixed), owned) => assert_eq!(owned.unwrap(), fixed.as_ref()),
            (Err(_), Ok(owned)) => assert!(owned.as_ref().value().len() + 2 > 64),
            (Err(_), Err(_)) => {}
        }
    }
    match Packet::decode_with(wire, |_| [0; 32]) {
        Ok(Packet::Interest(interest)) => {
            let hint: Vec<NameRef<'_>> = interest.forwarding_hint().collect();
            let builder = InterestBuilder::new(interest.name())
                .can_be_prefix(interest.can_be_prefix())
                .forwarding_hint(&hint)
                .lifetime_ms(interest.lifetime_ms());
            let mut vector = Vec::new();
            same(&memory.clone(), builder.encode(&mut vector).map(|()| vector), |out| {
                builder.encode_to_slice(out)
            });
            if let (Some(parameters), Some(signature)) =
                (interest.app_parameters(), interest.signature())
            {
                let info: SignatureInfo<'_> = signature.info;
                let mut vector = Vec::new();
                let built = builder
                    .encode_signed(&mut vector, parameters, &info, |_, out| {
                        out.extend_from_slice(signature.value);
                    })
                    .map(|()| vector);
                same(&memory.clone(), built, |out| {
                    let sign = |_: [&[u8]; 2], room: &mut [u8]| put(room, signature.value);
                    builder.encode_signed_to_slice(
                        out,
                        parameters,
                        &info,
                        sign,
                        xylem_packet::sha256,
                    )
                });
            }
        }
        Ok(Packet::Data(data)) => {
            let builder = DataBuilder::new(data.name())
                .content_type(data.meta().content_type)
                .signature_info(data.signature_info());
            let mut vector = Vec::new();
            let built = builder
                .encode(&mut vector, data.content(), |_, out| {
                    out.extend_from_slice(data.signature_value());
                })
                .map(|()| vector);
            same(&memory.clone(), built, |out| {
                let sign = |_: &[u8], room: &mut [u8]| put(room, data.signature_value());
                builder.encode_to_slice(out, data.content(), sign)
            });
        }
        Ok(Packet::Lp(lp)) => {
            let mut vector = Vec::new();
            lp.encode(&mut vector);
            same(&memory.clone(), Ok(vector), |out| lp.encode_to_slice(out));
        }
        Err(_) => {}
    }
    memory.clear();
});

fn put(room: &mut [u8], value: &[u8]) -> usize {
    if let Some(place) = room.get_mut(..value.len()) {
        place.copy_from_slice(value);
    }
    value.len()
}

/// Asserts that `write` into a slice as long as `memory` gives what was built, or `NoRoom`.
fn same(
    memory: &[u8],
    built: Result<Vec<u8>, EncodeError>,
    write: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
) {
    let mut memory = memory.to_vec();
    match (write(&mut memory), built) {
        (Ok(len), Ok(built)) => assert_eq!(memory[..len], built),
        (Err(EncodeError::NoRoom), Ok(built)) => assert!(memory.len() < built.len() + 3),
        (Err(_), Err(_)) => {}
        (written, built) => panic!("{written:?} and {built:?}"),
    }
}
