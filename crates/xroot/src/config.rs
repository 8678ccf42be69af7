//! What a server says of itself when it is asked for its configuration.

use crate::codes::ErrorCode;
use crate::limits::{CONFIG_COUNT_MAX, CONFIG_LEN_MAX, ELEMENT_LEN_MAX, VECTOR_COUNT_ANNOUNCED};
use crate::refusal::Refusal;
use std::fmt::Write;

/// What the session does not know by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Of this program, for people.
    pub version: &'static str,
    /// Clients may read by pages, and then do so. See docs/adr/0034 for what that costs and brings.
    pub with_pages: bool,
}

impl Config {
    /// One line for each word, in their order: its value, or the word itself where it has none, as XRootD's server
    /// does. There are no checksums of whole files, no copies between servers and no further connections of a session.
    pub(crate) fn answer(&self, body: &[u8]) -> Result<String, Refusal> {
        if body.len() > CONFIG_LEN_MAX {
            let text = format!("{} bytes of words; {CONFIG_LEN_MAX} at a time", body.len());
            return Err(Refusal::new(ErrorCode::ArgTooLong, text));
        }
        let text = String::from_utf8_lossy(body);
        let words =
            || text.split(|letter: char| letter.is_whitespace() || letter == '\0').filter(|word| !word.is_empty());
        match words().count() {
            0 => return Err(Refusal::new(ErrorCode::ArgMissing, "no word of the configuration was given")),
            count if count > CONFIG_COUNT_MAX => {
                return Err(Refusal::new(
                    ErrorCode::ArgTooLong,
                    format!("{count} words; {CONFIG_COUNT_MAX} at a time"),
                ));
            }
            _ => {}
        }
        let mut lines = String::new();
        for word in words() {
            let _ = match word {
                "readv_iov_max" => writeln!(lines, "{VECTOR_COUNT_ANNOUNCED}"),
                "readv_ior_max" => writeln!(lines, "{ELEMENT_LEN_MAX}"),
                "role" => writeln!(lines, "server"),
                "version" => writeln!(lines, "{}", self.version),
                "bind_max" => writeln!(lines, "0"),
                _ => writeln!(lines, "{word}"),
            };
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_line() {
        let config = Config { version: "levada 1", with_pages: true };
        let answer = |body: &[u8]| config.answer(body).map_err(|refusal| refusal.code);
        assert_eq!(answer(b"readv_iov_max readv_ior_max\0").unwrap(), "509\n2097136\n");
        assert_eq!(answer(b"chksum version  tpc").unwrap(), "chksum\nlevada 1\ntpc\n");
        assert_eq!(answer(b" "), Err(ErrorCode::ArgMissing));
        assert_eq!(answer(&b"a ".repeat(65)), Err(ErrorCode::ArgTooLong));
        assert_eq!(answer(&[0xff; 4096]).unwrap().len(), 3 * 4096 + 1, "what is no text is three bytes each");
        assert_eq!(answer(&[0xff; 4097]), Err(ErrorCode::ArgTooLong));
    }
}
