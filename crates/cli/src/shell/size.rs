//! Numbers of bytes, as people write and read them.

/// As `hdfs dfs` has it with `-h`: a power of 1024, one digit behind the point unless it is exact, a space before the
/// letter.
pub(crate) fn human(bytes: u64) -> String {
    const LETTERS: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut power = (63 - bytes.leading_zeros()) / 10;
    let is_exact = bytes.trailing_zeros() >= 10 * power;
    // Tenths, rounded in whole numbers: a double cannot hold every length.
    let tenths = |power: u32| (u128::from(bytes) * 10 + (1 << (10 * power - 1))) >> (10 * power);
    if tenths(power) >= 10240 && power < 6 {
        power += 1;
    }
    let (tenths, letter) = (tenths(power), LETTERS[power as usize - 1]);
    if is_exact { format!("{} {letter}", tenths / 10) } else { format!("{}.{} {letter}", tenths / 10, tenths % 10) }
}

/// `128M`, `1g`, `1.5G`, `65536`: a number of bytes, in powers of 1024; what is left of a byte is dropped.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_in_hadoop() {
        let table = [
            (0, "0"),
            (1023, "1023"),
            (1024, "1 K"),
            (1536, "1.5 K"),
            (1 << 20, "1 M"),
            ((1 << 20) - 1, "1.0 M"),
            ((1 << 30) - 6000, "1.0 G"),
            (128 << 20, "128 M"),
            (5_368_709_120, "5 G"),
            (u64::MAX, "16.0 E"),
        ];
        for (bytes, text) in table {
            assert_eq!(human(bytes), text);
        }
    }

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
