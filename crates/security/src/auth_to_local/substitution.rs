//! `s/pattern/replacement/g`, with replacements as Java's `Matcher` takes them: `$1` for a group, `\` before a letter
//! that stands for itself.

use super::pattern::Pattern;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubstitutionError {
    #[error("$ in a replacement is not followed by the number of a group, of which there are {group_count}")]
    Group { group_count: usize },
    #[error("a replacement ends with \\")]
    Escape,
}

#[derive(Clone, Debug)]
pub(super) struct Substitution {
    pattern: Pattern,
    replacement: Vec<Piece>,
    is_repeated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Letter(char),
    Group(usize),
}

impl Substitution {
    pub(super) fn parse(pattern: Pattern, text: &str, is_repeated: bool) -> Result<Self, SubstitutionError> {
        let group_count = pattern.group_count();
        let mut replacement = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            replacement.push(match letter {
                '\\' => Piece::Letter(letters.next().ok_or(SubstitutionError::Escape)?),
                '$' => {
                    let digit = |letter: &char| letter.to_digit(10).map(|digit| digit as usize);
                    let first = letters.next().as_ref().and_then(digit).filter(|group| *group <= group_count);
                    let mut group = first.ok_or(SubstitutionError::Group { group_count })?;
                    // As many digits as there is a group for.
                    while let Some(longer) = letters.peek().and_then(digit).map(|digit| group * 10 + digit)
                        && longer <= group_count
                    {
                        group = longer;
                        letters.next();
                    }
                    Piece::Group(group)
                }
                letter => Piece::Letter(letter),
            });
        }
        Ok(Self { pattern, replacement, is_repeated })
    }

    /// `None`: the outcome is longer than `len_max`.
    pub(super) fn apply(&self, text: &str, len_max: usize) -> Option<String> {
        let mut out = String::new();
        let (mut copied, mut start) = (0, 0);
        // Java tries the end of the text as well, and a match of nothing right behind another.
        while let Some(found) = self.pattern.find(text, start) {
            let whole = found.get(0).expect("a match has a whole");
            out.push_str(&text[copied..whole.start()]);
            for piece in &self.replacement {
                match piece {
                    Piece::Letter(letter) => out.push(*letter),
                    Piece::Group(group) => out.push_str(found.get(*group).map_or("", |group| group.as_str())),
                }
                if out.len() > len_max {
                    return None;
                }
            }
            copied = whole.end();
            start = whole.end();
            if whole.is_empty() {
                let Some(next) = text[start..].chars().next() else { break };
                start += next.len_utf8();
            }
            if !self.is_repeated {
                break;
            }
        }
        out.push_str(&text[copied..]);
        Some(out).filter(|out| out.len() <= len_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(pattern: &str, text: &str, subject: &str) -> Result<String, SubstitutionError> {
        let substitution = Substitution::parse(Pattern::parse(pattern).unwrap(), text, true)?;
        Ok(substitution.apply(subject, 1000).unwrap())
    }

    #[test]
    fn groups_have_as_many_digits_as_there_are_groups() {
        assert_eq!(replaced("(a)(b)", "$2$12$0", "xab!").as_deref(), Ok("xba2ab!"));
        assert_eq!(replaced("(a)|b", "[$1]", "ab").as_deref(), Ok("[a][]"), "no match, no text");
        assert_eq!(replaced("a", "\\$1\\\\", "a").as_deref(), Ok("$1\\"));
    }

    #[test]
    fn matches_of_nothing_are_replaced_as_in_java() {
        assert_eq!(replaced("a*", "x", "baac").as_deref(), Ok("xbxxcx"));
        assert_eq!(replaced("^$", "x", "").as_deref(), Ok("x"));
        assert_eq!(replaced("", "-", "äb").as_deref(), Ok("-ä-b-"));
    }

    #[test]
    fn wrong_replacements_are_refused() {
        assert_eq!(replaced("a", "$1", "a"), Err(SubstitutionError::Group { group_count: 0 }));
        assert_eq!(replaced("a", "$", "a"), Err(SubstitutionError::Group { group_count: 0 }));
        assert_eq!(replaced("a", "${x}", "a"), Err(SubstitutionError::Group { group_count: 0 }));
        assert_eq!(replaced("a", "b\\", "a"), Err(SubstitutionError::Escape));
    }
}
