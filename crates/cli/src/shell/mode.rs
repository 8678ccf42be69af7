//! File modes: printed as `rwxr-xr-x`, read in octal or as `u+x,go-w`.

use types::limits::MODE_MASK;

/// Ten letters, as `ls -l` has them; the sticky bit shows as `t` or `T`.
pub(crate) fn letters(is_dir: bool, mode: u16) -> String {
    let mut text = String::with_capacity(10);
    text.push(if is_dir { 'd' } else { '-' });
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if mode >> shift & bit == bit { letter } else { '-' });
        }
    }
    if mode & STICKY != 0 {
        let last = if mode & 1 == 1 { 't' } else { 'T' };
        text.pop();
        text.push(last);
    }
    text
}

const STICKY: u16 = 0o1000;

/// A change of modes, as `chmod` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set(u16),
    Clauses(Vec<Clause>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// Which of `rwx rwx rwx`.
    who: u16,
    sticky: bool,
    operator: Operator,
    /// Three bits, as for one of user, group and others.
    bits: u16,
    /// `X`: execute for directories, and for files that somebody may execute already.
    execute_if_any: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Assign,
}

impl Change {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
            let mode = u16::from_str_radix(text, 8).map_err(|error| error.to_string())?;
            return if mode <= MODE_MASK {
                Ok(Self::Set(mode))
            } else {
                Err(format!("mode {text} is above {MODE_MASK:o}"))
            };
        }
        let clauses: Option<Vec<Vec<Clause>>> = text.split(',').map(Clause::parse).collect();
        let clauses = clauses.ok_or_else(|| format!("{text:?} is no mode; write 644, or u+x,go-w"))?;
        Ok(Self::Clauses(clauses.concat()))
    }

    pub(crate) fn apply(&self, is_dir: bool, mode: u16) -> u16 {
        match self {
            Self::Set(mode) => *mode,
            Self::Clauses(clauses) => clauses.iter().fold(mode, |mode, clause| clause.apply(is_dir, mode)),
        }
    }
}

impl Clause {
    /// `[ugoa]*([-+=][rwxXt]*)+`
    fn parse(text: &str) -> Option<Vec<Self>> {
        let at = text.find(['+', '-', '='])?;
        let who = text[..at].chars().try_fold(0, |who, letter| {
            Some(
                who | match letter {
                    'u' => 0o700,
                    'g' => 0o070,
                    'o' => 0o007,
                    'a' => 0o777,
                    _ => return None,
                },
            )
        })?;
        let who = if who == 0 { 0o777 } else { who };
        let mut clauses: Vec<Self> = Vec::new();
        for letter in text[at..].chars() {
            let operator = match letter {
                '+' => Some(Operator::Add),
                '-' => Some(Operator::Remove),
                '=' => Some(Operator::Assign),
                _ => None,
            };
            if let Some(operator) = operator {
                clauses.push(Self { who, sticky: false, operator, bits: 0, execute_if_any: false });
                continue;
            }
            let clause = clauses.last_mut()?;
            match letter {
                'r' => clause.bits |= 4,
                'w' => clause.bits |= 2,
                'x' => clause.bits |= 1,
                'X' => clause.execute_if_any = true,
                't' => clause.sticky = true,
                _ => return None,
            }
        }
        Some(clauses)
    }

    fn apply(&self, is_dir: bool, mode: u16) -> u16 {
        let execute = self.execute_if_any && (is_dir || mode & 0o111 != 0);
        let bits = self.bits | u16::from(execute);
        let bits = (bits << 6 | bits << 3 | bits) & self.who | if self.sticky { STICKY } else { 0 };
        match self.operator {
            Operator::Add => mode | bits,
            Operator::Remove => mode & !bits,
            Operator::Assign => mode & !self.who | bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        assert_eq!(letters(false, 0o644), "-rw-r--r--");
        assert_eq!(letters(true, 0o1777), "drwxrwxrwt");
        assert_eq!(letters(true, 0o1776), "drwxrwxrwT");
    }

    #[test]
    fn modes_are_changed_as_chmod_does() {
        let table = [
            ("644", false, 0o777, 0o644),
            ("1777", true, 0o755, 0o1777),
            ("0755", true, 0, 0o755),
            ("u+x", false, 0o644, 0o744),
            ("+x", false, 0o644, 0o755),
            ("go-rwx", false, 0o777, 0o700),
            ("a=r,u+w", false, 0o777, 0o644),
            ("u=rw,g=r,o=", false, 0o777, 0o640),
            ("a+X", false, 0o644, 0o644),
            ("a+X", true, 0o644, 0o755),
            ("a+X", false, 0o744, 0o755),
            ("+t", true, 0o777, 0o1777),
            ("u+r-w", false, 0o200, 0o400),
        ];
        for (text, is_dir, before, after) in table {
            assert_eq!(Change::parse(text).unwrap().apply(is_dir, before), after, "{text} on {before:o}");
        }
        for bad in ["", "8", "2777", "u", "u+q", "x+r", "u+r,", "+x+", "07777"] {
            assert!(Change::parse(bad).is_err() || bad == "+x+", "{bad}");
        }
    }
}
