//! The end of a server's own certificate, and what the log says as it comes near.
//!
//! ```text
//! signed            half                two thirds             end
//!   ├────────────────┼───────────────────────┼──────────────────┼────────────────────▶
//!                    Due: a warning, once    Near: each day     Ended: an error, each day
//! ```
//!
//! Promise: who reads the log of the last day knows of a certificate that ends within weeks, or has ended. A server
//! whose certificate has ended is heard by no other one, and those say no more than that a handshake failed. No clock
//! is read here.

use crate::authority::LIFETIME;
use chrono::{DateTime, Utc};
use security::node_name::NodeName;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use types::Millis;

/// Before the end. Early enough that a store that is left alone for weeks goes on.
pub(crate) const DUE_BEFORE_END: Duration = Duration::from_secs(LIFETIME.as_secs() / 2);

/// Before the end. By then who had to renew it has had two weeks.
const NEAR_BEFORE_END: Duration = Duration::from_secs(LIFETIME.as_secs() / 3);

/// Between two times that the same is said: who reads logs does so once a day, or is sent an alert once a day.
const AGAIN_EACH: Duration = Duration::from_secs(24 * 3600);

/// A time that a certificate names, to the second, as text: `2026-11-21 08:30:05 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub Millis);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0.0).ok();
        let date = millis.and_then(DateTime::from_timestamp_millis).unwrap_or(DateTime::<Utc>::MAX_UTC);
        write!(f, "{} UTC", date.format("%Y-%m-%d %H:%M:%S"))
    }
}

/// What is known of a certificate's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// Past, or to come. `None`: it was never valid by the authorities that are believed.
    pub(crate) end: Option<Millis>,
    pub(crate) is_valid: bool,
}

/// How it stands with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Fine,
    Due,
    Near {
        end: Millis,
    },
    Ended {
        end: Millis,
    },
    /// It would count at another time, or by other authorities.
    Refused,
}

impl Stage {
    fn of(term: Term, now: Millis) -> Self {
        let within = |end: Millis, time: Duration| u128::from(end.0.saturating_sub(now.0)) <= time.as_millis();
        match term {
            Term { is_valid: false, end: Some(end) } if end <= now => Self::Ended { end },
            Term { is_valid: false, .. } => Self::Refused,
            Term { end: Some(end), .. } if within(end, NEAR_BEFORE_END) => Self::Near { end },
            Term { end: Some(end), .. } if within(end, DUE_BEFORE_END) => Self::Due,
            Term { .. } => Self::Fine,
        }
    }
}

/// Remembers what was said of one server's certificate, and when.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    said: Option<(Stage, Millis)>,
}

impl Watch {
    /// What there is to say of it now.
    pub(crate) fn look(&mut self, name: NodeName, term: Term, now: Millis) -> Option<Stage> {
        let stage = match Stage::of(term, now) {
            // Datanodes get another one by themselves then; what fails of that is said where it is tried.
            Stage::Due if !name.is_member() => Stage::Fine,
            stage => stage,
        };
        let is_said = self.said.is_some_and(|(said, at)| {
            let is_recent = u128::from(now.0.saturating_sub(at.0)) < AGAIN_EACH.as_millis();
            said == stage && (is_recent || stage == Stage::Due)
        });
        if is_said {
            return None;
        }
        self.said = Some((stage, now)).filter(|_| stage != Stage::Fine);
        self.said.map(|(stage, _)| stage)
    }
}

/// What to do about a certificate that ends or has ended, by whose it is.
pub(crate) fn advice(name: NodeName) -> String {
    match name {
        NodeName::Member(id) => format!("make another one with `levada certificate member {id}`"),
        NodeName::Datanode(id) => format!(
            "make a token with `levada admin datanode invite --datanode {id}`, and start it with `--join TOKEN`; or \
             make another one with `levada certificate datanode {id}`"
        ),
    }
}

/// Writes it into the log.
pub(crate) fn log(stage: Stage, name: NodeName, dir: &Path) {
    let (dir, advice) = (dir.display(), advice(name));
    match stage {
        Stage::Fine => {}
        Stage::Due => tracing::warn!(%dir, %name, advice, "this server's certificate is due"),
        Stage::Near { end } => {
            tracing::warn!(%dir, %name, end = %Date(end), advice, "this server's certificate ends soon");
        }
        Stage::Ended { end } => {
            let end = Date(end);
            tracing::error!(%dir, %name, %end, advice, "this server's certificate has ended: other servers refuse it");
        }
        Stage::Refused => tracing::error!(
            %dir,
            %name,
            "this server's certificate does not count: its time has not come by this clock, or ca.crt there does not \
             name its authority"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::NodeId;

    const DAY_MS: u64 = 24 * 3600 * 1000;
    const END: Millis = Millis(90 * DAY_MS);
    const MEMBER: NodeName = NodeName::Member(1);
    const DATANODE: NodeName = NodeName::Datanode(NodeId([7; 16]));

    /// What is said over the days by a server that looks each hour: day and stage.
    fn history(name: NodeName, days: u64) -> Vec<(u64, Stage)> {
        let mut watch = Watch::default();
        let looks = (0..days * 24).map(|hour| Millis(hour * DAY_MS / 24));
        let said = looks.filter_map(|now| {
            let term = Term { end: Some(END), is_valid: now < END };
            watch.look(name, term, now).map(|stage| (now.0 / DAY_MS, stage))
        });
        said.collect()
    }

    #[test]
    fn the_end_is_announced_each_day() {
        let near = (60..90).map(|day| (day, Stage::Near { end: END }));
        let ended = (90..93).map(|day| (day, Stage::Ended { end: END }));
        let expected: Vec<_> = near.chain(ended).collect();
        assert_eq!(history(DATANODE, 93), expected);
        assert_eq!(history(MEMBER, 93), [&[(45, Stage::Due)], &expected[..]].concat());
    }

    /// Nothing is owed to what was said of the certificate before.
    #[test]
    fn another_certificate_ends_the_warnings() {
        let mut watch = Watch::default();
        let mut look = |end, now: u64| {
            watch.look(MEMBER, Term { end: Some(Millis(end * DAY_MS)), is_valid: now < end }, Millis(now * DAY_MS))
        };
        assert!(matches!(look(90, 91), Some(Stage::Ended { .. })));
        assert_eq!(look(181, 91), None);
        assert_eq!(look(181, 150), Some(Stage::Due));
        assert!(matches!(look(181, 152), Some(Stage::Near { .. })));
    }

    #[test]
    fn one_that_does_not_count_for_another_reason_has_not_ended() {
        for end in [None, Some(Millis(5 * DAY_MS))] {
            assert_eq!(Watch::default().look(MEMBER, Term { end, is_valid: false }, Millis(1)), Some(Stage::Refused));
        }
    }

    #[test]
    fn what_to_do_names_the_server() {
        assert!(advice(MEMBER).contains("certificate member 1"));
        let id = NodeId([7; 16]);
        assert!(advice(DATANODE).contains(&format!("invite --datanode {id}")));
        assert_eq!(Date(Millis(1_795_249_805_000)).to_string(), "2026-11-21 08:30:05 UTC");
    }
}
