//! Dates, in UTC: a listing reads the same wherever it is read.

use types::{Civil, Millis};

/// `2026-11-21 08:30`, as in a listing.
pub(crate) fn minute(time: Millis) -> String {
    second(time)[..].rsplit_once(':').map_or_else(String::new, |(minute, _)| minute.to_owned())
}

/// `2026-11-21 08:30:05`.
pub(crate) fn second(time: Millis) -> String {
    let Civil { year, month, day, seconds_of_day: second, .. } = Civil::of(time);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Takes `2026-11-21 08:30:05`, without seconds or time too, and HDFS's `20261121:083005`.
pub(crate) fn parse(text: &str) -> Result<Millis, String> {
    let wrong = || format!("{text:?} is no time; write it as 2026-11-21 08:30:05 (UTC)");
    let digits: Vec<u64> = text.bytes().filter(u8::is_ascii_digit).map(|digit| u64::from(digit - b'0')).collect();
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"- :T".contains(&byte))
        || ![8, 12, 14].contains(&digits.len())
    {
        return Err(wrong());
    }
    let number =
        |from: usize, len: usize| digits.iter().skip(from).take(len).fold(0, |number, digit| number * 10 + digit);
    let (year, month, day) = (number(0, 4), number(4, 2), number(6, 2));
    let (hour, minute, second) = (number(8, 2), number(10, 2), number(12, 2));
    let valid =
        year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    if !valid {
        return Err(wrong());
    }
    let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_era = shifted % 400 * 365 + shifted % 400 / 4 - shifted % 400 / 100 + (153 * month + 2) / 5 + day - 1;
    let days = shifted / 400 * 146_097 + day_of_era - 719_468;
    let time = Millis((days * 86_400 + hour * 3600 + minute * 60 + second) * 1000);
    // The 31st of a shorter month comes out as another day.
    if Civil::of(time).day == day { Ok(time) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_moments() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_827_696, "2000-02-29 12:34:56"),
            (1_795_249_805, "2026-11-21 08:30:05"),
            (4_102_444_799, "2099-12-31 23:59:59"),
        ] {
            assert_eq!(second(Millis(seconds * 1000)), text);
            assert_eq!(parse(text), Ok(Millis(seconds * 1000)));
        }
        assert_eq!(minute(Millis(1_795_249_805_999)), "2026-11-21 08:30");
        assert_eq!(parse("20261121:083005"), Ok(Millis(1_795_249_805_000)));
        assert_eq!(parse("2026-11-21").map(second), Ok("2026-11-21 00:00:00".into()));
        for bad in ["", "now", "2026-13-01", "2026-02-30", "1960-01-01", "2026-11-21 25:00"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
