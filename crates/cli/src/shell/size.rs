//! Numbers of bytes, as people read them, and as they write them for commands.

pub(crate) use host::size::parse;

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
}
