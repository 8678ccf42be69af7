//! Texts of others in the log.
//!
//! Promise: what [`log_text`] returns is one line of bounded length without control characters, whatever came.

use std::fmt::{self, Display, Write};

/// Bytes of a text that people read in a line. A guess; it has the exception's class and the beginning of its message.
const TEXT_LEN_MAX: usize = 300;

/// An error as it goes into the log that another node, or a client, may have worded.
pub fn log_text(error: &(impl Display + ?Sized)) -> String {
    let mut text = Escaped { text: String::new(), is_cut: false };
    // An error says only that enough was written.
    let _ = write!(text, "{error}");
    if text.is_cut {
        text.text.push('…');
    }
    text.text
}

struct Escaped {
    text: String,
    is_cut: bool,
}

impl Write for Escaped {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for char in piece.chars() {
            let before_len = self.text.len();
            match char {
                // Nothing can be taken for the end of a field that is printed by itself.
                '"' | '\'' => self.text.push(char),
                _ => self.text.extend(char.escape_debug()),
            }
            if self.text.len() > TEXT_LEN_MAX {
                self.text.truncate(before_len);
                self.is_cut = true;
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CallError;

    #[test]
    fn a_text_of_others_is_one_short_line() {
        let remote = |message: String| CallError::Remote { class: "a.B".into(), message, detail: None };
        assert_eq!(log_text(&remote("it's \"gone\"".into())), "a.B: it's \"gone\"");
        let lines = log_text(&remote("a\nERROR all is lost\r\x1b[31m\u{202e}".into()));
        assert_eq!(lines, "a.B: a\\nERROR all is lost\\r\\u{1b}[31m\\u{202e}");
        for long in ["x", "\n", "ß", "\u{1b}"] {
            let text = log_text(&remote(long.repeat(16_000)));
            assert!(text.len() <= TEXT_LEN_MAX + '…'.len_utf8() && text.ends_with('…'), "{text}");
            assert!(!text.contains(char::is_control), "{text}");
        }
    }
}
