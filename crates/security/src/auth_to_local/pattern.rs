//! Regular expressions that Java and we read in the same way.
//!
//! Rules are written for Java. Where its syntax and regex-lite's agree, so do their matches: both prefer the leftmost
//! alternative, and `\d`, `\w`, `\s` and `(?i)` know ASCII alone. Where they do not agree, a rule would quietly map
//! other names than on the cluster beside it. So a pattern is read once by hand first, and what is not known to mean
//! the same is refused, with its place.

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
    // Of the groups that are open, the innermost last.
    let mut open = Vec::new();
    let mut group = Group::default();
    while let Some(letter) = reading.next() {
        let is_repeated = std::mem::take(&mut reading.is_repeated);
        match letter {
            '\\' => {
                reading.escape()?;
                group.item(Width::Some);
            }
            '[' => {
                reading.class()?;
                group.item(Width::Some);
            }
            '(' => {
                if reading.group()? {
                    open.push(std::mem::take(&mut group));
                }
            }
            ')' => {
                let outer = open.pop().ok_or_else(|| reading.unportable("a bracket that closes nothing"))?;
                let width = std::mem::replace(&mut group, outer).width();
                group.item(width);
            }
            '|' => group.alternative(),
            '^' | '$' => group.item(Width::MaybeNone),
            '*' | '+' | '?' | '{' => {
                if is_repeated {
                    return Err(reading.unportable("a repetition of a repetition"));
                }
                // The two engines end such a loop in different rounds, and groups in it hold other texts then.
                if group.last == Some(Width::MaybeNone) {
                    return Err(reading.unportable("a repetition of what can match nothing"));
                }
                let may_be_left_out = match letter {
                    '{' => reading.braces()?,
                    letter => letter != '+',
                };
                if may_be_left_out {
                    group.last = Some(Width::MaybeNone);
                }
                // What is lazy is no repetition of its own.
                reading.skip('?');
                reading.is_repeated = true;
            }
            '}' | ']' => return Err(reading.unportable("a bracket that closes nothing")),
            _ => group.item(Width::Some),
        }
    }
    Ok(())
}

/// How much of a text a part of a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// A letter at least.
    Some,
    /// Nothing, for some texts.
    MaybeNone,
}

/// What was read of a group, or of the whole pattern.
#[derive(Debug, Default)]
struct Group {
    /// An alternative before can match nothing.
    has_empty: bool,
    /// The items of this alternative but the last match a letter at least.
    has_width: bool,
    /// The last item, which may still be repeated.
    last: Option<Width>,
}

impl Group {
    fn item(&mut self, width: Width) {
        self.has_width |= self.last == Some(Width::Some);
        self.last = Some(width);
    }

    fn alternative(&mut self) {
        self.has_empty |= !self.has_width && self.last != Some(Width::Some);
        (self.has_width, self.last) = (false, None);
    }

    fn width(mut self) -> Width {
        self.alternative();
        if self.has_empty { Width::MaybeNone } else { Width::Some }
    }
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

    /// Punctuation, and classes of ASCII. What a word ends with (`\\b`) differs between releases of Java.
    fn escape(&mut self) -> Result<(), PatternError> {
        match self.next() {
            Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 't') => Ok(()),
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
                Some('\\') => self.escape()?,
                Some('&') if self.rest().starts_with('&') => return Err(self.unportable("&& in a class")),
                Some('-') if self.rest().starts_with('-') => return Err(self.unportable("-- in a class")),
                Some('~') if self.rest().starts_with('~') => return Err(self.unportable("~~ in a class")),
                Some(_) => {}
                None => return Err(self.unportable("a class without an end")),
            }
        }
    }

    /// Whether it is one, and no flag.
    fn group(&mut self) -> Result<bool, PatternError> {
        let (len, is_group) = match self.rest() {
            rest if rest.starts_with("?i)") => (3, false),
            rest if rest.starts_with("?:") => (2, true),
            rest if rest.starts_with('?') => return Err(self.unportable("a group with a question mark")),
            _ => (0, true),
        };
        self.at += len;
        Ok(is_group)
    }

    /// `{2}`, `{2,}` or `{2,3}`. Whether the first number is 0.
    fn braces(&mut self) -> Result<bool, PatternError> {
        let number = |reading: &mut Self| {
            let len = reading.rest().bytes().take_while(u8::is_ascii_digit).count();
            reading.at += len;
            len > 0
        };
        let start = self.at;
        let has_first = number(self);
        let is_zero = self.text[start..self.at].bytes().all(|digit| digit == b'0');
        let is_whole = has_first && {
            if self.skip(',') {
                number(self);
            }
            self.skip('}')
        };
        if is_whole { Ok(is_zero) } else { Err(self.unportable("a brace")) }
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
            "\\bada",
            "(a*)*",
            "(a*)+",
            "(a|)*",
            "(|a){2}",
            "(a?b{0,3}){2,}",
            "(?:(a*)(b*))+",
            "((?i))+",
            "(^)*",
            "^*",
            "()?",
            "(a",
            "a)",
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
    fn what_matches_a_letter_may_be_repeated() {
        for pattern in ["(a*b)*", "(a|b{1,2})+?", "(?:(a*)|b)c*", "(a{2,}){3}", "(^a$)?", "(?i)(a)*", "(a|(b|c)d?)*"] {
            assert!(Pattern::parse(pattern).is_ok(), "{pattern}");
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
