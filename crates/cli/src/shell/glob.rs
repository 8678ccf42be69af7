//! Patterns over remote names, as HDFS's shell has them: `*`, `?`, `[a-z]`, `[^a-z]`, `{a,b}`, and `\` before a letter
//! that is meant as it is. A pattern's parts match one component of a path each; `{a/b,c}` is spread out first.

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A name, its backslashes gone.
    Name(String),
    Pattern(Pattern),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Token>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Letter(char),
    Any,
    AnyRun,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// More than this many alternatives are a mistake, or an attack on our memory.
const ALTERNATIVES_MAX: usize = 10_000;

/// Takes an absolute path with patterns apart: every alternative is a list of components.
pub(crate) fn parse(text: &str) -> Result<Vec<Vec<Part>>, String> {
    let alternatives = spread(text)?;
    alternatives.iter().map(|path| components(path).into_iter().map(|part| part_of(&part)).collect()).collect()
}

/// True if a shell user means more than one name by this.
pub(crate) fn is_pattern(text: &str) -> bool {
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '*' | '?' | '[' | '{' => return true,
            _ => {}
        }
    }
    false
}

/// `a{b,c}d` becomes `abd` and `acd`.
fn spread(text: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut waiting = vec![text.to_owned()];
    while let Some(text) = waiting.pop() {
        let Some((open, close)) = braces(&text)? else {
            done.push(text);
            continue;
        };
        let alternatives = split_outside(&text[open + 1..close]);
        if done.len() + waiting.len() + alternatives.len() > ALTERNATIVES_MAX {
            return Err(format!("the pattern stands for more than {ALTERNATIVES_MAX} paths"));
        }
        // The last in comes out first: the order of the alternatives stays.
        waiting
            .extend(alternatives.iter().rev().map(|inner| format!("{}{inner}{}", &text[..open], &text[close + 1..])));
    }
    Ok(done)
}

/// Where the first outer pair of braces lies.
fn braces(text: &str) -> Result<Option<(usize, usize)>, String> {
    let mut open = None;
    let mut depth = 0;
    for (at, letter) in unescaped(text) {
        match letter {
            '{' => {
                open = open.or(Some(at));
                depth += 1;
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Ok(open.map(|open| (open, at)));
                }
            }
            _ => {}
        }
    }
    if depth > 0 { Err("a { without its }".into()) } else { Ok(None) }
}

/// At the commas that no inner pair of braces holds.
fn split_outside(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in unescaped(text) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].to_owned());
    parts
}

/// The letters that no backslash precedes, with their places.
fn unescaped(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escaped = false;
    text.char_indices().filter(move |(_, letter)| {
        let plain = !escaped && *letter != '\\';
        escaped = !escaped && *letter == '\\';
        plain
    })
}

fn components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn part_of(text: &str) -> Result<Part, String> {
    if is_pattern(text) { Pattern::parse(text).map(Part::Pattern) } else { Ok(Part::Name(unescape(text))) }
}

pub(crate) fn unescape(text: &str) -> String {
    let mut letters = text.chars();
    let mut name = String::new();
    while let Some(letter) = letters.next() {
        name.push(if letter == '\\' { letters.next().unwrap_or('\\') } else { letter });
    }
    name
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            tokens.push(match letter {
                '*' => Token::AnyRun,
                '?' => Token::Any,
                '\\' => Token::Letter(letters.next().unwrap_or('\\')),
                '[' => {
                    let negated = letters.next_if(|letter| *letter == '^' || *letter == '!').is_some();
                    let mut ranges = Vec::new();
                    loop {
                        // A ] at the very beginning stands for itself.
                        let first = match letters.next() {
                            Some(']') if !ranges.is_empty() => break,
                            Some('\\') => letters.next(),
                            letter => letter,
                        };
                        let first = first.ok_or("a [ without its ]")?;
                        let mut rest = letters.clone();
                        match (rest.next(), rest.next()) {
                            (Some('-'), Some(last)) if last != ']' => {
                                letters = rest;
                                ranges.push((first, last));
                            }
                            _ => ranges.push((first, first)),
                        }
                    }
                    Token::Class { negated, ranges }
                }
                letter => Token::Letter(letter),
            });
        }
        Ok(Self(tokens))
    }

    /// Goes back to the last `*` when a letter does not fit, so the time is at most pattern times name.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            match self.0.get(token) {
                Some(Token::AnyRun) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(wanted) if name.get(at).is_some_and(|letter| wanted.takes(*letter)) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                None if at == name.len() => return true,
                _ => {}
            }
            match star {
                Some((place, from)) if from < name.len() => {
                    star = Some((place, from + 1));
                    (token, at) = (place + 1, from + 1);
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Any => true,
            Self::AnyRun => false,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        match part_of(pattern).unwrap() {
            Part::Name(own) => own == name,
            Part::Pattern(pattern) => pattern.matches(name),
        }
    }

    #[test]
    fn names_that_fit_and_names_that_do_not() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "x"),
            ("*.gz", "part-1.gz"),
            ("a*b*c", "a-b-b-c"),
            ("part-?", "part-7"),
            ("[a-c]x", "bx"),
            ("[^a-c]x", "dx"),
            ("[!a]", "b"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("a\\*b", "a*b"),
            ("a\\?*", "a?bc"),
            ("[\\]]", "]"),
            ("ä?", "äö"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("?", ""), ("*.gz", "x.gzz"), ("[a-c]", "d"), ("[^a-c]", "a"), ("a\\*b", "axb"), ("a*b", "ab c")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn braces_stand_for_several_paths() {
        let spread = |text| spread(text).unwrap().join(" ");
        assert_eq!(spread("/a/{b,c/d}/e"), "/a/b/e /a/c/d/e");
        assert_eq!(spread("/{a,b}{1,2}"), "/a1 /a2 /b1 /b2");
        assert_eq!(spread("/{a,{b,c}d}"), "/a /bd /cd");
        assert_eq!(spread("/\\{a,b}"), "/\\{a,b}");
        assert!(super::spread("/{a").is_err());
        assert!(super::spread(&"{a,b}".repeat(20)).is_err(), "a million paths");
        assert_eq!(parse("//a//b*/").unwrap()[0].len(), 2);
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!fits(&"a*".repeat(60), &"a".repeat(59)));
        assert!(!fits(&format!("{}b", "*a".repeat(50)), &"a".repeat(5000)));
    }

    #[test]
    fn what_is_a_pattern() {
        for text in ["*", "a?", "[x]", "{a}"] {
            assert!(is_pattern(text), "{text}");
        }
        for text in ["", "a", "a\\*", "a]", "}"] {
            assert!(!is_pattern(text), "{text}");
        }
    }
}
