//! `levada admin datanode invite`, and what belongs to it: how datanodes come to certificates, and lose them.

use super::table;
use crate::shell::{Common, Session, Stop, span};
use io::{Clock, SystemClock};
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct InviteArgs {
    /// For one that has disks, or had a certificate: its id, or, if the store knows it, the beginning of that or its
    /// address
    #[arg(long, value_name = "DATANODE")]
    datanode: Option<String>,
    /// For how long the token counts, as 30m, 24h or 7d
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span::parse)]
    expires: u64,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WithdrawArgs {
    /// Number of the invitation; see `levada admin datanode invitations`
    #[arg(value_parser = number)]
    number: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// Its id, the beginning of its id, or its address
    datanode: String,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    number: String,
    expires_ms: u64,
    made_by: String,
    /// The datanode that it is for, if that is a known one.
    #[serde(skip_serializing_if = "String::is_empty")]
    datanode: String,
    /// The datanode that has joined by it.
    #[serde(skip_serializing_if = "String::is_empty")]
    taken_by: String,
}

fn number(text: &str) -> Result<u32, String> {
    let is_number = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_number.then(|| u32::from_str_radix(text, 16).ok()).flatten();
    number.ok_or_else(|| "a number of an invitation has eight digits and letters a to f".into())
}

/// The token alone goes to standard output, so that a script can keep it.
pub(super) async fn invite(args: InviteArgs, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let datanode = args.datanode.unwrap_or_default();
    let made = target.client.admin().invite(&datanode, args.expires).await.map_err(|error| target.failure(&error))?;
    let number = format!("{:08x}", made.number);
    if session.output.is_json() {
        return session
            .output
            .json(&serde_json::json!({ "number": number, "token": made.token, "expires_ms": made.expires_ms }));
    }
    session.output.line(&made.token)?;
    eprintln!("On the new machine: levada data --config FILE --join TOKEN");
    eprintln!(
        "It counts for one datanode, and for {}. Withdraw it: levada admin datanode uninvite {number}",
        span::human(args.expires)
    );
    Ok(())
}

pub(super) async fn list(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let all = target.client.admin().invitations().await.map_err(|error| target.failure(&error))?;
    let lines: Vec<Line> = all
        .into_iter()
        .map(|one| Line {
            number: format!("{:08x}", one.number),
            expires_ms: one.expires_ms,
            made_by: one.made_by,
            datanode: one.datanode,
            taken_by: one.taken_by,
        })
        .collect();
    if session.output.is_json() {
        return lines.iter().try_for_each(|line| session.output.json(line));
    }
    let now = SystemClock::new().now().0;
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let row = |line: &Line| {
        [
            line.number.clone(),
            span::human(line.expires_ms.saturating_sub(now)),
            line.made_by.clone(),
            or_dash(&line.datanode),
            or_dash(&line.taken_by),
        ]
    };
    let head = ["NUMBER", ">EXPIRES IN", "MADE BY", "FOR", "TAKEN BY"];
    table::print(session, head, &lines.iter().map(row).collect::<Vec<_>>())
}

pub(super) async fn withdraw(args: WithdrawArgs, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    target.client.admin().uninvite(args.number).await.map_err(|error| target.failure(&error))?;
    let number = format!("{:08x}", args.number);
    if session.output.is_json() {
        return session.output.json(&serde_json::json!({ "number": number }));
    }
    session.output.line(&format!("{number} is withdrawn"))
}

pub(super) async fn revoke(args: RevokeArgs, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let id = target.client.admin().revoke(&args.datanode).await.map_err(|error| target.failure(&error))?;
    if session.output.is_json() {
        return session.output.json(&serde_json::json!({ "id": id }));
    }
    session.output.line(&format!("the certificates that {id} has do not count any more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_numbers_eight_digits() {
        assert_eq!(
            ["90s", "30m", "24h", "7d"].map(|text| span::parse(text).unwrap()),
            [90_000, 1_800_000, 86_400_000, 604_800_000]
        );
        for wrong in ["", "h", "0h", "24", "-1h", "1w", "99999999999999999999d", "18446744073709551615d"] {
            assert!(span::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(number("0000beef"), Ok(0xbeef));
        for wrong in ["", "beef", "+000beef", "0000beefa", "0000beeg"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }
}
