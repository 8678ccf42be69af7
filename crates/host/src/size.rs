//! Numbers of bytes, as people write them: on a command line and in a file of settings.
//!
//! Promise: both take the same forms. A file may also give a plain number, without quotes.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt::{Formatter, Result as FmtResult};
use std::marker::PhantomData;

/// `128M`, `1g`, `1.5G`, `65536`: a number of bytes, in powers of 1024; what is left of a byte is dropped.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        unit => return Err(format!("{unit:?} is no unit; use K, M, G or T, as in 128M")),
    };
    let wrong = || format!("{text:?} is no number of bytes, as 128M and 1.5G are");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || shift == 0 && digits.contains('.') {
        return Err(wrong());
    }
    let number: u64 = whole.parse().map_err(|_| format!("{text} is too large"))?;
    let rest: f64 = format!("0.{fraction}").parse().map_err(|_| wrong())?;
    let bytes = number.checked_shl(shift).filter(|bytes| bytes >> shift == number);
    bytes
        .and_then(|bytes| bytes.checked_add((rest * (1u64 << shift) as f64) as u64))
        .ok_or_else(|| format!("{text} is too large"))
}

/// Of a setting: `#[serde(deserialize_with = "host::size::setting")]`.
pub fn setting<'de, D: Deserializer<'de>, N: TryFrom<u64>>(deserializer: D) -> Result<N, D::Error> {
    deserializer.deserialize_any(SizeVisitor(PhantomData))
}

/// Of a setting that may be absent; it also needs serde's `default`.
pub fn optional_setting<'de, D: Deserializer<'de>, N: TryFrom<u64>>(deserializer: D) -> Result<Option<N>, D::Error> {
    setting(deserializer).map(Some)
}

struct SizeVisitor<N>(PhantomData<N>);

impl<N: TryFrom<u64>> Visitor<'_> for SizeVisitor<N> {
    type Value = N;

    fn expecting(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.write_str("a number of bytes, as 268435456 or \"256M\"")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<N, E> {
        N::try_from(bytes).map_err(|_| E::custom(format!("{bytes} bytes are too many here")))
    }

    /// TOML's numbers have a sign.
    fn visit_i64<E: Error>(self, bytes: i64) -> Result<N, E> {
        let bytes = u64::try_from(bytes).map_err(|_| E::custom(format!("{bytes} is no number of bytes")))?;
        self.visit_u64(bytes)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<N, E> {
        self.visit_u64(parse(text).map_err(E::custom)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        assert_eq!(parse("128M"), Ok(128 << 20));
        assert_eq!(parse("7"), Ok(7));
        assert_eq!(parse("1kib"), Ok(1024));
        assert_eq!(parse("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse("0.1K"), Ok(102));
        for bad in ["", "M", "1.5", "1.G", ".5G", "1.2.3G", "1e3K", "-1", "1x", "lots", "99999999999T"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
