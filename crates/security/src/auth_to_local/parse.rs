//! The text of rules. Where each may end and the next begin is as Hadoop's regular expression for a rule has it.

use super::pattern::{Pattern, PatternError};
use super::rule::{Made, Piece, Rule, RuleKind};
use super::substitution::{Substitution, SubstitutionError};

/// Longest text of rules, and how many it may hold. Real ones have a few dozen.
const TEXT_LEN_MAX: usize = 64 << 10;
const RULE_COUNT_MAX: usize = 1000;

/// Why a text is no list of rules. The place is where the rule begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("auth_to_local rules of {len} bytes, at most {TEXT_LEN_MAX} are allowed")]
    TooLong { len: usize },
    #[error("more than {RULE_COUNT_MAX} auth_to_local rules")]
    TooMany,
    #[error("Invalid rule: {}", types::excerpt(text))]
    Syntax { text: String },
    #[error("auth_to_local rule {}: $ is not followed by 0, or the number of a part", types::excerpt(text))]
    Format { text: String },
    #[error("auth_to_local rule {}: {source}", types::excerpt(text))]
    Pattern { text: String, source: PatternError },
    #[error("auth_to_local rule {}: {source}", types::excerpt(text))]
    Substitution { text: String, source: SubstitutionError },
}

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    if text.len() > TEXT_LEN_MAX {
        return Err(RuleError::TooLong { len: text.len() });
    }
    let is_space = |letter: char| matches!(letter, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r');
    let mut rest = text.trim_matches(is_space);
    let mut rules = Vec::new();
    while !rest.is_empty() {
        if rules.len() == RULE_COUNT_MAX {
            return Err(RuleError::TooMany);
        }
        rest = rest.trim_start_matches(is_space);
        let (rule, behind) = rule(rest)?;
        rules.push(rule);
        rest = behind;
    }
    Ok(rules)
}

/// The parts of a rule as they are written.
struct Parts<'t> {
    component_count: &'t str,
    format: &'t str,
    matching: Option<&'t str>,
    /// What is replaced, by what, and whether everywhere.
    substitution: Option<(&'t str, &'t str, bool)>,
}

/// The first rule of a text, and what is behind it.
fn rule(text: &str) -> Result<(Rule, &str), RuleError> {
    let syntax = || RuleError::Syntax { text: text.to_owned() };
    let (parts, rest) = match text.strip_prefix("DEFAULT") {
        Some(rest) => (None, rest),
        None => parts(text).map(|(parts, rest)| (Some(parts), rest)).ok_or_else(syntax)?,
    };
    let of_rule = |rest: &str| text[..text.len() - rest.len()].to_owned();
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let (is_lower_case, rest) = rest.strip_prefix('L').map_or((false, rest), |rest| (true, rest));
    let text = of_rule(rest);
    // Hadoop reads the sign behind DEFAULT as well, and forgets it.
    let Some(parts) = parts else { return Ok((Rule { text, kind: RuleKind::Default, is_lower_case: false }, rest)) };
    let kind = made(&text, &parts).map_err(|error| error.unwrap_or_else(syntax))?;
    Ok((Rule { text, kind, is_lower_case }, rest))
}

fn parts(text: &str) -> Option<(Parts<'_>, &str)> {
    let (front, rest) = text.strip_prefix("RULE:[")?.split_once(']')?;
    let (component_count, format) = front.split_once(':')?;
    let (matching, rest) = match rest.strip_prefix('(').and_then(|behind| behind.split_once(')')) {
        Some((matching, rest)) => (Some(matching), rest),
        None => (None, rest),
    };
    let (substitution, rest) = match rest.strip_prefix("s/").and_then(substitution) {
        Some((substitution, rest)) => (Some(substitution), rest),
        None => (None, rest),
    };
    Some((Parts { component_count, format, matching, substitution }, rest))
}

type Replacing<'t> = (&'t str, &'t str, bool);

fn substitution(text: &str) -> Option<(Replacing<'_>, &str)> {
    let (from, rest) = text.split_once('/')?;
    let (to, rest) = rest.split_once('/')?;
    let (is_repeated, rest) = rest.strip_prefix('g').map_or((false, rest), |rest| (true, rest));
    Some(((from, to, is_repeated), rest))
}

/// `None` for an error of the syntax.
fn made(text: &str, parts: &Parts<'_>) -> Result<RuleKind, Option<RuleError>> {
    let is_number = parts.component_count.bytes().all(|byte| byte.is_ascii_digit());
    let component_count = parts.component_count.parse::<u32>().ok().filter(|_| is_number).ok_or(None)? as usize;
    let text = || text.to_owned();
    let format = format(parts.format, component_count).ok_or_else(|| RuleError::Format { text: text() })?;
    let pattern = |pattern: &str| Pattern::parse(pattern).map_err(|source| RuleError::Pattern { text: text(), source });
    let matching = parts.matching.map(pattern).transpose()?;
    let substitution = match parts.substitution {
        Some((from, to, is_repeated)) => {
            let parsed = Substitution::parse(pattern(from)?, to, is_repeated);
            Some(parsed.map_err(|source| RuleError::Substitution { text: text(), source })?)
        }
        None => None,
    };
    Ok(RuleKind::Made(Box::new(Made { component_count, format, matching, substitution })))
}

fn format(text: &str, component_count: usize) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (literal, behind) = rest.split_once('$').map_or((rest, None), |(literal, behind)| (literal, Some(behind)));
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.to_owned()));
        }
        let Some(behind) = behind else { break };
        let len = behind.bytes().take_while(u8::is_ascii_digit).count();
        let number = behind[..len].parse::<usize>().ok().filter(|number| *number <= component_count)?;
        pieces.push(if number == 0 { Piece::Realm } else { Piece::Component(number) });
        rest = &behind[len..];
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        rules(text).unwrap_err().to_string()
    }

    #[test]
    fn rules_follow_each_other_with_or_without_space() {
        let texts = |text: &str| rules(text).unwrap().into_iter().map(|rule| rule.text).collect::<Vec<_>>();
        assert_eq!(texts(" RULE:[1:$1]/L\nDEFAULT "), ["RULE:[1:$1]/L", "DEFAULT"]);
        assert_eq!(
            texts("RULE:[1:$1](a)s/a/b/gRULE:[2:$2]LDEFAULT"),
            ["RULE:[1:$1](a)s/a/b/g", "RULE:[2:$2]L", "DEFAULT"]
        );
        assert_eq!(texts("  "), [""; 0]);
    }

    #[test]
    fn an_error_names_the_rule() {
        assert_eq!(refused("DEFAULT NONE"), "Invalid rule: \"NONE\"");
        assert_eq!(refused("RULE:[+1:$1]"), "Invalid rule: \"RULE:[+1:$1]\"");
        assert_eq!(
            refused("RULE:[1:$2]"),
            "auth_to_local rule \"RULE:[1:$2]\": $ is not followed by 0, or the number of a part"
        );
        assert!(refused("RULE:[1:$1](a++)").starts_with("auth_to_local rule \"RULE:[1:$1](a++)\": "));
        assert!(refused("RULE:[1:$1]s/a/$1/").contains("group"));
        assert!(refused(&"DEFAULT ".repeat(1001)).starts_with("more than"));
        assert!(refused(&" ".repeat(70_000)).starts_with("auth_to_local rules of"));
    }
}
