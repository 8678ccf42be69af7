//! Regular expressions that Java and we read in the same way.
//!
//! Rules are written for Java. Where its syntax and regex-lite's agree, so do their matches: both prefer the leftmost
//! alternative, and `\d`, `\w`, `\s` and `(?i)` know ASCII alone. Where they do not agree, a rule would quietly map other
//! names than on the cluster beside it. So a pattern is read once by hand first, and what is not known to mean the same
//! is refused, with its place.

use regex_lite::{Captures, Regex, RegexBuilder};

/// Longest pattern. Real ones have some dozens of letters.
const PATTERN_LEN_MAX: usize = 1024;
/// Of a compiled pattern: repetitions of repetitions grow.
const COMPILED_LEN_MAX: usize = 256 << 10;
/// Groups within groups.
const DEPTH_MAX: u32 = 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a pattern of {len} bytes, at most {PATTERN_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("{what} at byte {at} of a pattern is not supported, as Java could mean something else by it")]
    Unportable { what: &'static str, at: usize },
    #[error("{reason}")]
    Malformed { reason: String },
}

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// As it is, to be found in a text.
    anywhere: Regex,
    /// As it is, for a whole text.
    whole: Regex,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_LEN_MAX {
            return Err(PatternError::TooLong { len: text.len() });
        }
        portable(text)?;
        Ok(Self { anywhere: compiled(text)?, whole: compiled(&format!("^(?:{text})$"))? })
    }

    pub(super) fn is_whole(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }

    /// The first match that begins at `start` or behind it.
    pub(super) fn find<'t>(&self, text: &'t str, start: usize) -> Option<Captures<'t>> {
        self.anywhere.captures_at(text, start)
    }

    /// Without the whole match.
    pub(super) fn group_count(&self) -> usize {
        self.anywhere.captures_len() - 1
    }
}

fn compiled(text: &str) -> Result<Regex, PatternError> {
    RegexBuilder::new(text)
        .size_limit(COMPILED_LEN_MAX)
        .nest_limit(DEPTH_MAX)
        .build()
        .map_err(|error| PatternError::Malformed { reason: error.to_string() })
}

fn portable(text: &str) -> Result<(), PatternError> {
    let mut reading = Reading { text, at: 0, is_repeated: false };
    while let Some(letter) = reading.next() {
        let is_repeated = std::mem::take(&mut reading.is_repeated);
        match letter {
            '\\' => reading.escape()?,
            '[' => reading.class()?,
            '(' => reading.group()?,
            '*' | '+' | '?' | '{' => {
                if is_repeated {
                    return Err(reading.unportable("a repetition of a repetition"));
                }
                if letter == '{' {
                    reading.braces()?;
                }
                // What is lazy is no repetition of its own.
                reading.skip('?');
                reading.is_repeated = true;
            }
            '}' | ']' => return Err(reading.unportable("a bracket that closes nothing")),
            _ => {}
        }
    }
    Ok(())
}

struct Reading<'t> {
    text: &'t str,
    at: usize,
    /// The letter before was a repetition.
    is_repeated: bool,
}

impl Reading<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.rest().chars().next()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    fn skip(&mut self, text: char) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len_utf8();
        }
        is_next
    }

    fn unportable(&self, what: &'static str) -> PatternError {
        PatternError::Unportable { what, at: self.at.saturating_sub(1) }
    }

    /// Punctuation, and classes and places of ASCII.
    fn escape(&mut self) -> Result<(), PatternError> {
        match self.next() {
            Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 't') => Ok(()),
            Some('b') if !self.rest().starts_with('{') => Ok(()),
            Some(letter) if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') => Ok(()),
            _ => Err(self.unportable("an escape")),
        }
    }

    /// Letters and ranges, behind a bracket.
    fn class(&mut self) -> Result<(), PatternError> {
        self.skip('^');
        let start = self.at;
        loop {
            let at = self.at;
            match self.next() {
                Some(']') if at > start => return Ok(()),
                // As the first letter, too: a bracket in Java's reading, or a letter.
                Some(']' | '[') => return Err(self.unportable("a bracket in a class")),
                Some('\\') if self.rest().starts_with('b') => return Err(self.unportable("an escape")),
                Some('\\') => self.escape()?,
                Some('&') if self.rest().starts_with('&') => return Err(self.unportable("&& in a class")),
                Some('-') if self.rest().starts_with('-') => return Err(self.unportable("-- in a class")),
                Some('~') if self.rest().starts_with('~') => return Err(self.unportable("~~ in a class")),
                Some(_) => {}
                None => return Err(self.unportable("a class without an end")),
            }
        }
    }

    fn group(&mut self) -> Result<(), PatternError> {
        if !self.rest().starts_with('?') || self.rest().starts_with("?:") || self.rest().starts_with("?i)") {
            // The flag's own bracket closes it, as that of a group does.
            if self.skip('?') {
                self.next();
            }
            return Ok(());
        }
        Err(self.unportable("a group with a question mark"))
    }

    /// `{2}`, `{2,}` or `{2,3}`.
    fn braces(&mut self) -> Result<(), PatternError> {
        let number = |reading: &mut Self| {
            let len = reading.rest().bytes().take_while(u8::is_ascii_digit).count();
            reading.at += len;
            len > 0
        };
        let is_whole = number(self) && {
            if self.skip(',') {
                number(self);
            }
            self.skip('}')
        };
        if is_whole { Ok(()) } else { Err(self.unportable("a brace")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_text_has_to_match() {
        let is_whole = |pattern, text| Pattern::parse(pattern).unwrap().is_whole(text);
        assert!(is_whole("a|ab", "ab"), "another alternative is tried, as in Java");
        assert!(is_whole("(?i)ADA@.*", "ada@X") && !is_whole("da", "ada"));
        assert!(is_whole("^[^a-c\\]&-]{2,3}$", "xyz") && !is_whole("[^a-c]{2,}", "xa"));
        assert!(is_whole("a.*?\\.\\d+", "ab.12") && !is_whole("\\w+", "ä"), "letters are those of ASCII");
    }

    #[test]
    fn what_java_may_read_otherwise_is_refused() {
        for pattern in [
            "a++",
            "a*+",
            "a?+",
            "a{2}+",
            "a**",
            "[a[b]]",
            "[[:alpha:]]",
            "[a&&b]",
            "[a--b]",
            "[a~~b]",
            "[]a]",
            "[^]a]",
            "\\v",
            "\\<a",
            "\\b{start}",
            "\\p{L}",
            "\\Qa\\E",
            "\\x41",
            "\\1",
            "\\0",
            "(?P<n>a)",
            "(?<n>a)",
            "(?x) a",
            "(?=a)",
            "a{,3}",
            "a{",
            "{2}a",
            "a}",
            "a]",
            "[a",
            "[\\b]",
            "\\",
            "\\u0041",
        ] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_bounded() {
        assert_eq!(Pattern::parse(&"a".repeat(1025)).unwrap_err(), PatternError::TooLong { len: 1025 });
        assert!(Pattern::parse("(((a{99}){99}){99})").is_err(), "a million letters");
        assert!(Pattern::parse(&"(".repeat(500)).is_err());
        let nested = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        assert!(Pattern::parse(&nested).is_err());
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[\\PCab.*+?()\\[\\]{}|^$\\\\,0-9-]{0,20}", text in "\\PC{0,20}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                pattern.is_whole(&text);
                pattern.find(&text, 0);
            }
        }
    }
}
