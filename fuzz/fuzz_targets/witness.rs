//! Co-signatures, lists of them and evidence: each parsed one has one form, and no forged signature is accepted.
#![no_main]
use xylem_object::witness::{
    Evidence, STATEMENT_LEN, SubmissionReply, Witness, WitnessStatement, decode_list, encode_list,
    is_witness_name, submission, submitted_cosignature,
};
use xylem_packet::{Interest, Name, NameRef};
use xylem_trust::{Signer, ValidityPeriod, self_signed};

fn witness() -> Witness {
    let locator = Name::from_uri("/w/KEY/1").expect("is a name");
    let always = ValidityPeriod { not_before_ms: 0, not_after_ms: 4_000_000_000_000 };
    let certificate = self_signed(&Signer::ed25519(&[5; 32], locator), 1, always);
    Witness::from_certificate(&certificate.expect("a key that signs")).expect("is a certificate")
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some(said) = WitnessStatement::decode(input) {
        assert_eq!(said.encode(), input);
    }
    // Most inputs are too short, or begin otherwise, to get here.
    let mut content = [0; STATEMENT_LEN];
    content[..16].copy_from_slice(b"xylem witness 1\n");
    content[16..].iter_mut().zip(input).for_each(|(to, from)| *to = *from);
    if let Some(said) = WitnessStatement::decode(&content) {
        assert_eq!(said.encode(), content);
        assert!(said.first <= said.version && said.since_ms <= said.time_ms);
    }
    if let Ok(packets) = decode_list(input) {
        assert_eq!(encode_list(packets.iter().copied()), input);
        let by = witness();
        assert!(
            packets.iter().all(|packet| by.verify_cosignature(packet).is_err()),
            "nobody signed it"
        );
    }
    assert!(witness().verify_cosignature(input).is_err(), "nobody signed it");
    let file = [&b"xylem evidence 1\n"[..], input].concat();
    for file in [input, &file[..]] {
        if let Ok(evidence) = Evidence::decode(file) {
            assert_eq!(evidence.encode(), file);
        }
    }
    SubmissionReply::decode(input);
    let object = Name::from_uri("/a").expect("is a name");
    if let Ok(wire) = submission(object.as_ref(), input, [1; 4], 1_000) {
        let interest = Interest::decode(&wire).expect("what is written can be read");
        let read = submitted_cosignature(object.as_ref(), &interest);
        assert!(read.is_none_or(|packet| packet == input));
    }
    if let Ok(name) = NameRef::from_value(input) {
        is_witness_name(object.as_ref(), name);
    }
});
