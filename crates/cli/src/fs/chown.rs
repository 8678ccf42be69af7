//! `levada chown`

use crate::shell::browse::Found;
use crate::shell::transfer::every;
use crate::shell::{Common, Failure, Session, Stop};
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// USER, USER:GROUP or :GROUP
    #[arg(value_parser = Owner::parse)]
    owner: Owner,
    /// What to change; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// All that lies below, too
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    user: Option<String>,
    group: Option<String>,
}

impl Owner {
    fn parse(text: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let name = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let owner = Self { user: name(user), group: name(group) };
        if owner.user.is_none() && owner.group.is_none() {
            return Err("name a USER, USER:GROUP or :GROUP".into());
        }
        if group.contains(':') {
            return Err("there is one colon at most: USER, USER:GROUP or :GROUP".into());
        }
        Ok(owner)
    }
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let owner = args.owner;
    every(session, &args.paths, args.recursive, move |found| chown(found, owner.clone())).await
}

async fn chown(found: Found, owner: Owner) -> Result<(), Failure> {
    let (user, group) = (owner.user.as_deref(), owner.group.as_deref());
    let changed = found.target.client.set_owner(&found.target.path, user, group).await;
    changed.map_err(|error| found.target.failure(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_as_chown_takes_them() {
        let parse = |text| Owner::parse(text).map(|owner| (owner.user, owner.group));
        assert_eq!(parse("a"), Ok((Some("a".into()), None)));
        assert_eq!(parse("a:b"), Ok((Some("a".into()), Some("b".into()))));
        assert_eq!(parse(":b"), Ok((None, Some("b".into()))));
        assert!(parse("").is_err() && parse(":").is_err() && parse("a:b:c").is_err());
    }
}
