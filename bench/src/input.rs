//! Bytes to hash: the same in every run.

/// `len` bytes without a period; those of a shorter input are its beginning.
#[must_use]
pub fn bytes(len: usize) -> Vec<u8> {
    xylem_sim::noise(len, 1)
}

/// A size such as `64 B`, `1,500 B`, `4 KiB`, `100 MiB`: in the largest unit of which it is a multiple.
#[must_use]
pub fn size(bytes: usize) -> String {
    if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) {
        format!("{} KiB", bytes >> 10)
    } else {
        format!("{} B", thousands(bytes))
    }
}

/// `12345` as `12,345`.
#[must_use]
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 core`, `3 cores`.
#[must_use]
pub fn cores(count: usize) -> String {
    format!("{count} core{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        let named = [(64, "64 B"), (1_500, "1,500 B"), (4_096, "4 KiB"), (100 << 20, "100 MiB")];
        for (bytes, name) in named {
            assert_eq!(size(bytes), name);
        }
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(0), "0");
    }
}
