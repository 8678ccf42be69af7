//! `levada count`

use crate::shell::{Common, LongHelp, Session, Stop, size};
use client::Summary;
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What to count; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// Quotas, too, and what is left of them
    #[arg(short, long)]
    quotas: bool,
    /// Sizes as 1.5 G
    #[arg(short = 'h', long)]
    human: bool,
    /// A line above that names the columns
    #[arg(short = 'v', long)]
    header: bool,
    #[command(flatten)]
    _help: LongHelp,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Counted {
    path: String,
    /// The directory itself included
    directory_count: u64,
    file_count: u64,
    len: u64,
    /// With all replicas
    space_consumed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_quota: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space_quota: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_space_quota: Option<i64>,
}

impl Counted {
    fn new(path: String, summary: &Summary) -> Self {
        let &Summary { len, file_count, directory_count, space_consumed, quota, space_quota } = summary;
        // Below zero where more is there than the quota allows: it may have been set later.
        let left = |quota: Option<u64>, used: u64| quota.map(|quota| quota.wrapping_sub(used) as i64);
        Self {
            path,
            directory_count,
            file_count,
            len,
            space_consumed,
            quota,
            remaining_quota: left(quota, directory_count + file_count),
            space_quota,
            remaining_space_quota: left(space_quota, space_consumed),
        }
    }
}

/// The columns of `hdfs dfs -count`, to the letter: scripts cut them.
pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    if args.header && !session.output.is_json() {
        let quotas = if args.quotas {
            format!("{:>12} {:>15} {:>15} {:>15} ", "QUOTA", "REM_QUOTA", "SPACE_QUOTA", "REM_SPACE_QUOTA")
        } else {
            String::new()
        };
        session
            .output
            .line(&format!("{quotas}{:>12} {:>12} {:>18} PATHNAME", "DIR_COUNT", "FILE_COUNT", "CONTENT_SIZE"))?;
    }
    for path in &args.paths {
        for found in session.found(path).await? {
            let summary = found.target.client.summary(&found.target.path).await;
            let summary = summary.map_err(|error| Stop::Failed(found.target.failure(&error)));
            let Some(summary) = session.settle(summary)? else { continue };
            let counted = Counted::new(found.target.shown(), &summary);
            if session.output.is_json() {
                session.output.json(&counted)?;
            } else {
                session.output.line(&line(&args, &counted))?;
            }
        }
    }
    Ok(())
}

fn line(args: &Args, counted: &Counted) -> String {
    let shown = |bytes: u64| if args.human { size::human(bytes) } else { bytes.to_string() };
    let quotas = if args.quotas {
        let all = |quota: Option<u64>| quota.map_or("none".into(), shown);
        let left = |left: Option<i64>| {
            let sign = if left.is_some_and(i64::is_negative) { "-" } else { "" };
            left.map_or("inf".into(), |left| format!("{sign}{}", shown(left.unsigned_abs())))
        };
        format!(
            "{:>12} {:>15} {:>15} {:>15} ",
            all(counted.quota),
            left(counted.remaining_quota),
            all(counted.space_quota),
            left(counted.remaining_space_quota)
        )
    } else {
        String::new()
    };
    let Counted { path, directory_count, file_count, len, .. } = counted;
    format!("{quotas}{:>12} {:>12} {:>18} {path}", shown(*directory_count), shown(*file_count), shown(*len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Taken from `hdfs dfs -count` and `-count -q`.
    #[test]
    fn the_columns_are_those_of_hdfs() {
        let mut summary = Summary {
            directory_count: 5,
            file_count: 11,
            len: 2_424_511,
            space_consumed: 7_273_533,
            quota: None,
            space_quota: Some(10_000_000),
        };
        let counted = |summary: &Summary| Counted::new("/cli/t".into(), summary);
        let line = |args: &[&str], counted: &Counted| {
            line(&Line::parse_from(["count", "/x"].iter().chain(args)).args, counted)
        };
        let shown = |args: &[&str]| line(args, &counted(&summary));
        assert_eq!(shown(&[]), "           5           11            2424511 /cli/t");
        assert_eq!(shown(&["-h"]), "           5           11              2.3 M /cli/t");
        let quotas = "        none             inf        10000000         2726467 ";
        assert_eq!(shown(&["-q"]), format!("{quotas}           5           11            2424511 /cli/t"));
        (summary.quota, summary.space_quota) = (Some(10), Some(3_000_000));
        let over = counted(&summary);
        let quotas = "          10              -6         3000000        -4273533 ";
        assert_eq!(line(&["-q"], &over), format!("{quotas}           5           11            2424511 /cli/t"));
        assert!(
            line(&["-q", "-h"], &over).starts_with("          10              -6           2.9 M          -4.1 M ")
        );
    }
}
