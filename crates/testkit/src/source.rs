//! Rust source as tests of the workspace look at it: tokens, without comments, texts and what only tests compile.

use std::collections::BTreeSet;

/// A token of what ships, and the line it stands in, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// A source file without its test code.
#[derive(Debug)]
pub struct Source<'a> {
    pub tokens: Vec<Token<'a>>,
    /// Comments and empty lines included.
    pub line_count: usize,
    /// Modules of this one that only tests have: files to be left out.
    pub test_modules: Vec<&'a str>,
}

impl<'a> Source<'a> {
    pub fn parse(text: &'a str) -> Self {
        let all = tokens(text);
        let mut source = Self { tokens: Vec::new(), line_count: text.lines().count(), test_modules: Vec::new() };
        let mut rest = all.as_slice();
        while let Some(first) = rest.first() {
            let Some(item) = behind(rest, &["#", "[", "cfg", "(", "test", ")", "]"]) else {
                source.tokens.push(*first);
                rest = &rest[1..];
                continue;
            };
            let len = item_len(item);
            let (item, next) = item.split_at(len);
            if let [.., keyword, name, end] = item
                && (keyword.text, end.text) == ("mod", ";")
            {
                source.test_modules.push(name.text);
            }
            let last = item.last().map_or(first.line, |last| last.line);
            source.line_count -= last - first.line + 1;
            rest = next;
        }
        source
    }
}

/// What follows the tokens with these texts.
fn behind<'t, 'a>(tokens: &'t [Token<'a>], texts: &[&str]) -> Option<&'t [Token<'a>]> {
    let is_there = tokens.len() >= texts.len() && tokens.iter().zip(texts).all(|(token, text)| token.text == *text);
    is_there.then(|| &tokens[texts.len()..])
}

/// Tokens of the item that begins here: up to its semicolon, or to the end of its braces.
fn item_len(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(token.text, ";" | "}") {
            return index + 1;
        }
    }
    tokens.len()
}

/// Names, `::`, and all else sign by sign. Comments, texts, numbers and lifetimes are left out.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let (kind, len) = piece(rest);
        if kind == Kind::Token {
            found.push(Token { text: &rest[..len], line });
        }
        line += bytes[at..at + len].iter().filter(|byte| **byte == b'\n').count();
        at += len;
    }
    found
}

/// Lines, from 0, that begin inside a text which is not broken by a backslash: their breaks are the text's own.
pub fn lines_in_texts(text: &str) -> BTreeSet<usize> {
    let (mut found, mut at, mut line) = (BTreeSet::new(), 0, 0);
    while at < text.len() {
        let (kind, len) = piece(&text[at..]);
        let piece = &text[at..at + len];
        for (end, _) in piece.match_indices('\n') {
            line += 1;
            if kind == Kind::Text && !piece[..end].ends_with('\\') {
                found.insert(line);
            }
        }
        at += len;
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Token,
    Text,
    /// Spaces, comments, numbers, characters, lifetimes.
    Other,
}

/// What the text begins with, and how long that is.
fn piece(rest: &str) -> (Kind, usize) {
    let bytes = rest.as_bytes();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    match bytes[0] {
        byte if byte.is_ascii_whitespace() => (Kind::Other, 1),
        b'/' if rest.starts_with("//") => (Kind::Other, rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => (Kind::Other, rest.find("*/").map_or(rest.len(), |end| end + 2)),
        b'"' => (Kind::Text, text_len(rest)),
        b'r' if rest.starts_with("r\"") || rest.starts_with("r#\"") => (Kind::Text, raw_text_len(rest)),
        b'\'' => (Kind::Other, quote_len(rest)),
        byte if is_name(byte) => {
            let len = bytes.iter().take_while(|byte| is_name(**byte)).count();
            (if byte.is_ascii_digit() { Kind::Other } else { Kind::Token }, len)
        }
        _ => (Kind::Token, if rest.starts_with("::") { 2 } else { 1 }),
    }
}

fn text_len(rest: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_text_len(rest: &str) -> usize {
    let end = if rest.starts_with("r#") { "\"#" } else { "\"" };
    let begin = end.len() + 1;
    rest[begin..].find(end).map_or(rest.len(), |found| begin + found + end.len())
}

/// A character, or the beginning of a lifetime.
fn quote_len(rest: &str) -> usize {
    let mut inner = rest[1..].chars();
    match (inner.next(), inner.next()) {
        (Some('\\'), Some(_)) => rest[3..].find('\'').map_or(rest.len(), |end| end + 4),
        (Some(one), Some('\'')) => one.len_utf8() + 2,
        _ => 1 + rest[1..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_tests_are_left_out() {
        let text = r##"
//! use crate::a;
use crate::b; /* crate::c */
const T: &str = "crate::d \" crate::e"; const R: &str = r#"crate::f"#;
fn g<'a>(x: &'a str) -> char { '\'' }
#[cfg(test)]
mod tests {
    use crate::h;
}
#[cfg(test)]
pub(crate) mod golden;
fn last() -> char { 'é' }
"##;
        let source = Source::parse(text);
        let texts: Vec<&str> = source.tokens.iter().map(|token| token.text).collect();
        for (name, has) in [("b", true), ("last", true), ("a", false), ("c", false), ("d", false), ("e", false)] {
            assert_eq!(texts.contains(&name), has, "{name} in {texts:?}");
        }
        assert!(!texts.contains(&"f") && !texts.contains(&"h"), "{texts:?}");
        assert_eq!(source.test_modules, ["golden"]);
        assert_eq!(source.line_count, text.lines().count() - 6);
    }

    #[test]
    fn lines_of_a_text_are_told_from_broken_ones() {
        let text =
            "let a = \"one\ntwo\"; // \"\nlet b = r#\"\nthree \"\n\"#;\nlet c = \"four \\\n five\";\nlet d = '\"';\n";
        assert_eq!(lines_in_texts(text).into_iter().collect::<Vec<_>>(), [1, 3, 4]);
    }
}
