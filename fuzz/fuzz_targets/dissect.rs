//! Dissection: every element lies within the input, and what is listed without a fault is all of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xylem_capture::dissect;
use xylem_packet::tlv::element_len;

fuzz_target!(|input: &[u8]| {
    let found = dissect(input);
    for element in &found.elements {
        let end = element.offset + element_len(element.typ, element.len);
        assert!(end <= input.len(), "{element:?}");
    }
    if found.faults.is_empty() {
        let outermost = found.elements.iter().filter(|element| element.depth == 0);
        let whole: usize = outermost.map(|element| element_len(element.typ, element.len)).sum();
        assert_eq!(whole, input.len());
    }
});
