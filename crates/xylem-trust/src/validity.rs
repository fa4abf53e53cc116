//! ValidityPeriod of certificates: two times as text, in UTC, with a resolution of a second.
//!
//! ```text
//! ValidityPeriod := 253 (NotBefore NotAfter)      NotBefore := 254 text      NotAfter := 255 text
//! text           := YYYYMMDD "T" hhmmss           (NDN certificate format v2)
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::{self, TlvReader};

use crate::CertificateError;

const NOT_BEFORE: u32 = 0xFE;
const NOT_AFTER: u32 = 0xFF;

/// The last time that the text can express, in milliseconds: 9999-12-31T23:59:59.
const MAX_MS: u64 = 253_402_300_799_000;

/// When a certificate is valid, in milliseconds since 1970, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// The first valid millisecond.
    pub not_before_ms: u64,
    /// The beginning of the last valid second.
    pub not_after_ms: u64,
}

impl ValidityPeriod {
    /// Whether the certificate is valid at this time.
    pub fn contains(&self, now_ms: u64) -> bool {
        (self.not_before_ms..self.not_after_ms.saturating_add(1000)).contains(&now_ms)
    }

    /// Reads the value of a ValidityPeriod element.
    ///
    /// # Errors
    /// `Validity` if it is not two times, the first before the second.
    pub fn from_value(value: &[u8]) -> Result<Self, CertificateError> {
        let mut reader = TlvReader::new(value);
        let mut next = |typ| match reader.next_element() {
            Ok(Some(element)) if element.typ == typ => parse(element.value),
            _ => None,
        };
        let (Some(not_before_ms), Some(not_after_ms)) = (next(NOT_BEFORE), next(NOT_AFTER)) else {
            return Err(CertificateError::Validity);
        };
        if reader.position() != value.len() || not_after_ms < not_before_ms {
            return Err(CertificateError::Validity);
        }
        Ok(ValidityPeriod { not_before_ms, not_after_ms })
    }

    /// The value of a ValidityPeriod element. Fractions of seconds are cut; times after the year 9999 become its end.
    pub fn to_value(self) -> Vec<u8> {
        let mut value = Vec::new();
        tlv::write_element(&mut value, NOT_BEFORE, &print(self.not_before_ms));
        tlv::write_element(&mut value, NOT_AFTER, &print(self.not_after_ms));
        value
    }
}

/// Years have four digits, so all numbers of milliseconds are far below 2^48.
const _: () = assert!(MAX_MS < 1 << 48);

/// Parses `YYYYMMDDThhmmss` to milliseconds since 1970. `None` if it is no valid time, or before 1970.
#[expect(clippy::arithmetic_side_effects, reason = "years of four digits")]
fn parse(text: &[u8]) -> Option<u64> {
    if text.len() != 15 || text[8] != b'T' {
        return None;
    }
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0u64, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let in_range = year >= 1970
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let days = days_before_year(year) - days_before_year(1970)
        + (1..month).map(|m| days_in(year, m)).sum::<u64>()
        + (day - 1);
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

/// Parses the output of [`utc`] to milliseconds since 1970. `None` if it is no valid time, or before 1970.
#[must_use]
pub fn parse_utc(text: &str) -> Option<u64> {
    parse(text.as_bytes())
}

/// Formats milliseconds since 1970 as certificates do: `20261123T174243`, in UTC.
#[must_use]
pub fn utc(ms: u64) -> String {
    String::from_utf8_lossy(&print(ms)).into_owned()
}

#[expect(clippy::arithmetic_side_effects, reason = "years of four digits")]
pub(crate) fn print(ms: u64) -> [u8; 15] {
    let seconds = ms.min(MAX_MS) / 1000;
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    days += days_before_year(1970);
    // A year has at most 366 days, so this is too early by at most a few years.
    let mut year = days / 366 + 1;
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    days -= days_before_year(year);
    let mut month = 1;
    while days >= days_in(year, month) {
        days -= days_in(year, month);
        month += 1;
    }
    let text = format!(
        "{year:04}{month:02}{:02}T{:02}{:02}{:02}",
        days + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    );
    let mut out = [b'0'; 15];
    out.copy_from_slice(text.as_bytes());
    out
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days from 1 January of year 1 (Gregorian) to 1 January of `year`, which is at least 1.
#[expect(clippy::arithmetic_side_effects, reason = "years of four digits, from 1 on")]
fn days_before_year(year: u64) -> u64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_round_trip() {
        for (text, seconds) in [
            ("19700101T000000", 0),
            ("20000229T120000", 951_825_600),
            ("20220429T153950", 1_651_246_790),
            ("20261231T235959", 1_798_761_599),
            ("99991231T235959", MAX_MS / 1000),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(seconds * 1000), "{text}");
            assert_eq!(print(seconds * 1000), text.as_bytes());
        }
        assert_eq!(print(u64::MAX), *b"99991231T235959");
    }

    #[test]
    fn all_days_round_trip() {
        for day in (0..MAX_MS / 86_400_000).step_by(97) {
            let ms = day * 86_400_000 + 86_399_000;
            assert_eq!(parse(&print(ms)), Some(ms));
        }
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in [
            "",
            "20220429T15395",
            "20220429T1539500",
            "20220429 153950",
            "20220229T000000",
            "20221301T000000",
            "20220001T000000",
            "20220100T000000",
            "20220101T240000",
            "20220101T006000",
            "20220101T000060",
            "19691231T235959",
            "2022O101T000000",
            "+0220101T000000",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn periods_are_read_strictly() {
        let period = ValidityPeriod { not_before_ms: 1000, not_after_ms: 2000 };
        let value = period.to_value();
        assert_eq!(ValidityPeriod::from_value(&value), Ok(period));
        assert!(!period.contains(999) && period.contains(1000));
        assert!(period.contains(2999) && !period.contains(3000));
        for cut in 0..value.len() {
            assert!(ValidityPeriod::from_value(&value[..cut]).is_err());
        }
        let reversed = ValidityPeriod { not_before_ms: 2000, not_after_ms: 1000 };
        assert!(ValidityPeriod::from_value(&reversed.to_value()).is_err());
    }
}
