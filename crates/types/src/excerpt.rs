//! Texts of strangers in what is answered to them.
//!
//! Promise: what [`excerpt`] returns is short and printable, whatever came.

use std::fmt::Write;

/// Letters of a text that a message repeats: whoever sent it knows it again. A guess.
const LETTER_COUNT_MAX: usize = 80;

/// The beginning of a text, in quotes.
pub fn excerpt(text: &str) -> String {
    let end = text.char_indices().nth(LETTER_COUNT_MAX).map_or(text.len(), |(at, _)| at);
    let mut excerpt = String::new();
    let _ = write!(excerpt, "{:?}", &text[..end]);
    if end < text.len() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_control_characters_escaped() {
        assert_eq!(excerpt("BP-1"), "\"BP-1\"");
        assert_eq!(excerpt("a\n\u{1b}"), r#""a\n\u{1b}""#);
        assert_eq!(excerpt(&"ü".repeat(80)).chars().count(), 82);
        let cut = excerpt(&"\u{1b}".repeat(1 << 20));
        assert!(cut.ends_with("\"…") && cut.len() < 1000, "{cut}");
    }
}
