//! From a Kerberos name to the short name that permissions know: `hadoop.security.auth_to_local`.
//!
//! ```text
//! RULE:[2:$1@$0]([nd]n@EXAMPLE\.COM)s/.*/hdfs/g/L        DEFAULT: the first part, if it is of our own realm
//!       │ │      │                  │          │ └ in small letters
//!       │ │      │                  │          └ wherever it matches, not only the first time
//!       │ │      │                  └ then what matches is replaced
//!       │ │      └ if the whole of that matches
//!       │ └ made into this: $0 the realm, $1 and $2 the parts
//!       └ a name of so many parts
//! ```
//!
//! The first rule that fits counts. Promise: for rules that are taken, the outcome is Hadoop's (`KerberosName`), which
//! golden files hold. Some of what Hadoop takes is refused when rules are read: what would fail later, for some names
//! alone; and patterns that Java reads in another way than we do ([`pattern`]).

mod parse;
mod pattern;
mod rule;
mod substitution;

pub use parse::RuleError;

use crate::kerberos_name::{KerberosName, NAME_LEN_MAX};
use rule::{Made, Rule, RuleKind, made};

/// What a short name may be: `hadoop.security.auth_to_local.mechanism`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// It has neither `/` nor `@`, and a name that no rule fits is refused.
    #[default]
    Hadoop,
    /// Whatever rules make of it; a name that no rule fits stays whole.
    Mit,
}

/// Why a name has no short one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("No rules applied to {whole}")]
    NoRule { whole: KerberosName },
    #[error("Non-simple name {} after auth_to_local rule {rule}", types::excerpt(name))]
    NotSimple { name: String, rule: String },
    #[error("auth_to_local rule {rule} makes nothing of {whole}")]
    Empty { whole: KerberosName, rule: String },
    /// As U+212A, which looks like K and becomes k: another's name could be made of it.
    #[error(
        "auth_to_local rule {rule} puts {} into small letters of ASCII, and it is not of ASCII",
        types::excerpt(name)
    )]
    Folded { name: String, rule: String },
    #[error("auth_to_local rule {rule} makes more than {NAME_LEN_MAX} bytes of a name")]
    TooLong { rule: String },
}

/// The rules of a cluster.
#[derive(Clone, Debug)]
pub struct AuthToLocal {
    rules: Vec<Rule>,
    mechanism: Mechanism,
    default_realm: String,
}

impl AuthToLocal {
    /// Of the settings' text. `default_realm` is that of this machine, which `DEFAULT` asks for.
    pub fn parse(rules: &str, mechanism: Mechanism, default_realm: &str) -> Result<Self, RuleError> {
        Ok(Self { rules: parse::rules(rules)?, mechanism, default_realm: default_realm.to_owned() })
    }

    /// The short name of `whole`. A name without host and realm is short already.
    pub fn short_name(&self, whole: &KerberosName) -> Result<String, NameError> {
        if whole.host.is_none() && whole.realm.is_none() {
            return Ok(whole.service.clone());
        }
        for rule in &self.rules {
            if let Some(name) = self.apply(rule, whole)? {
                return Ok(name);
            }
        }
        match self.mechanism {
            Mechanism::Hadoop => Err(NameError::NoRule { whole: whole.clone() }),
            Mechanism::Mit => Ok(whole.to_string()),
        }
    }

    fn apply(&self, rule: &Rule, whole: &KerberosName) -> Result<Option<String>, NameError> {
        let name = match &rule.kind {
            RuleKind::Default if whole.realm.as_ref() == Some(&self.default_realm) => whole.service.clone(),
            RuleKind::Default => return Ok(None),
            RuleKind::Made(rule_made) if rule_made.component_count != whole.component_count() => return Ok(None),
            RuleKind::Made(rule_made) => {
                let Made { format, matching, substitution, .. } = &**rule_made;
                let Some(made) = made(format, whole) else { return Ok(None) };
                if matching.as_ref().is_some_and(|pattern| !pattern.is_whole(&made)) {
                    return Ok(None);
                }
                let replaced = match substitution {
                    Some(substitution) => substitution.apply(&made, NAME_LEN_MAX),
                    None => Some(made).filter(|made| made.len() <= NAME_LEN_MAX),
                };
                replaced.ok_or_else(|| NameError::TooLong { rule: rule.text.clone() })?
            }
        };
        if self.mechanism == Mechanism::Hadoop && name.contains(['/', '@']) {
            return Err(NameError::NotSimple { name, rule: rule.text.clone() });
        }
        if name.is_empty() {
            return Err(NameError::Empty { whole: whole.clone(), rule: rule.text.clone() });
        }
        if !rule.is_lower_case {
            return Ok(Some(name));
        }
        let is_folded = |letter: char| !letter.is_ascii() && letter.to_lowercase().all(|small| small.is_ascii());
        if name.contains(is_folded) {
            return Err(NameError::Folded { name, rule: rule.text.clone() });
        }
        Ok(Some(name.to_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Hadoop reads these, and fails on some names; here they are refused when they are read.
    const REFUSED_EARLY: [&str; 4] =
        ["RULE:[2:$1-$2-$0]s/-/./g\nRULE:[1:no$$1]", "RULE:[2:$3]", "RULE:[1:$1]s/a/$9/", "RULE:[1:$1]s/a/\\/"];

    fn ours(rules: &str, mechanism: &str, name: &str) -> Result<String, String> {
        let mechanism = if mechanism == "mit" { Mechanism::Mit } else { Mechanism::Hadoop };
        let rules = AuthToLocal::parse(rules, mechanism, "EXAMPLE.COM").map_err(|_| "invalid")?;
        let whole = KerberosName::parse(name).map_err(|_| "malformed")?;
        rules.short_name(&whole).map_err(|_| "none".to_owned())
    }

    /// Each line: mechanism, rules, name, and what Hadoop makes of it.
    #[test]
    fn hadoop_decides_the_same() {
        let mut early = BTreeSet::new();
        let mut count = 0;
        for line in include_str!("../../tests/golden/auth_to_local.txt").lines() {
            let [mechanism, rules, name, result] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let rules = rules.replace("\\n", "\n").replace("\\\\", "\\");
            let ours = ours(&rules, mechanism, name);
            count += 1;
            match (result.strip_prefix('='), ours) {
                (_, Err(error)) if error == "invalid" && REFUSED_EARLY.contains(&&rules[..]) => {
                    early.insert(rules);
                }
                // Neither is a name here.
                (Some(_), Err(error)) if error == "malformed" && ["", "a/b/c"].contains(&name) => {}
                // Hadoop wrote "null" for a realm that is missing.
                (Some(theirs), _) if theirs.contains("null") => {}
                (Some(theirs), ours) => assert_eq!(ours.as_deref(), Ok(theirs), "{line}"),
                (None, ours) => assert_eq!(ours, Err(result.to_owned()), "{line}"),
            }
        }
        assert!(count > 800 && early.len() == REFUSED_EARLY.len(), "{count} lines, {early:?}");
    }

    #[test]
    fn refusals_name_the_rule() {
        let rules = AuthToLocal::parse("RULE:[1:$1/x] DEFAULT", Mechanism::Hadoop, "X").unwrap();
        let refused = |name| rules.short_name(&KerberosName::parse(name).unwrap()).unwrap_err().to_string();
        assert_eq!(refused("ada@X"), "Non-simple name \"ada/x\" after auth_to_local rule RULE:[1:$1/x]");
        assert_eq!(refused("nn/host@Y"), "No rules applied to nn/host@Y");
        let grows = AuthToLocal::parse("RULE:[1:$1]s/./$0$0$0/g", Mechanism::Hadoop, "X").unwrap();
        let long = KerberosName::parse(&format!("{}@X", "a".repeat(700))).unwrap();
        assert!(matches!(grows.short_name(&long), Err(NameError::TooLong { .. })));
        let small = AuthToLocal::parse("RULE:[1:$1]/L", Mechanism::Hadoop, "X").unwrap();
        let kelvin = small.short_name(&KerberosName::parse("\u{212a}im@X").unwrap());
        assert!(matches!(kelvin, Err(NameError::Folded { .. })), "{kelvin:?}");
        assert_eq!(small.short_name(&KerberosName::parse("KÄte@X").unwrap()).as_deref(), Ok("käte"));
        let empty = AuthToLocal::parse("RULE:[1:$1]s/.*//", Mechanism::Mit, "X").unwrap();
        assert!(matches!(empty.short_name(&KerberosName::parse("ada@X").unwrap()), Err(NameError::Empty { .. })));
    }

    proptest! {
        #[test]
        fn no_text_panics(
            rules in concat!(
                r"(RULE:\[[12]:[$012a@]{0,5}\]MATCH(s/[a-z.*()?|]{0,6}/[$01\\a]{0,4}/g?)?(/L)? ?|DEFAULT ?|.{0,5})",
                "{0,3}"
            ),
            matching in proptest::option::of(r"\([a-z.*+?\[\]\\{}|^$]{0,8}\)"),
            name in "[a-c/@.\\PC]{1,12}"
        ) {
            let rules = rules.replace("MATCH", &matching.unwrap_or_default());
            let parsed = AuthToLocal::parse(&rules, Mechanism::Hadoop, "a");
            if let (Ok(rules), Ok(name)) = (parsed, KerberosName::parse(&name))
                && let Ok(short) = rules.short_name(&name)
            {
                prop_assert!(!short.is_empty() && !short.contains(['/', '@']));
            }
        }
    }
}
