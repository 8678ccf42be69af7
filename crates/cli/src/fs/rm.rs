//! `levada rm`

use crate::shell::browse::Found;
use crate::shell::trash::{Moved, Trash};
use crate::shell::{Common, Failure, Session, Stop};
use std::ffi::OsString;

/// Of `hdfs dfs -rm`: its one option that is a word.
const HADOOP_SKIP_TRASH: &str = "-skipTrash";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to remove; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// Directories, with all they hold
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// Do not mind what is not there
    #[arg(short, long)]
    force: bool,
    /// Delete at once, also where the store keeps what is removed for a while; see `levada trash`
    #[arg(long, alias = "skipTrash")]
    skip_trash: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The command line, with [`HADOOP_SKIP_TRASH`] as this command writes it. Taken for letters of options it would be
/// refused, with the advice to make a path of it.
pub(crate) fn in_our_words(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(|command| command == "rm") {
        let options = words.iter_mut().skip(2).take_while(|word| *word != "--");
        options.filter(|word| *word == HADOOP_SKIP_TRASH).for_each(|word| *word = "--skip-trash".into());
    }
    words
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        let Some(target) = session.settle(session.target(path).map_err(Stop::from))? else { continue };
        if target.is_root() {
            session.report(&Failure::new(&target, "the root is not removed"));
            continue;
        }
        let found = match session.find(path).await {
            // A pattern that matches nothing is no error with -f, nor is a path that is not there.
            Err(_) if args.force && nothing_there(session, path).await => continue,
            found => session.settle(found.map_err(Stop::from))?.unwrap_or_default(),
        };
        for found in found {
            session.settle(remove(&args, session, &found).await)?;
        }
    }
    Ok(())
}

async fn nothing_there(session: &Session, path: &str) -> bool {
    let Ok(target) = session.target(path) else { return false };
    // A pattern found nothing; had it failed, so would this.
    matches!(target.client.status(&target.path).await, Ok(None) | Err(client::Error::NotADirectory))
}

async fn remove(args: &Args, session: &Session, found: &Found) -> Result<(), Stop> {
    let target = &found.target;
    if found.status.is_dir() && !args.recursive {
        return Err(Failure::new(target, "is a directory").advise("use -r").into());
    }
    let keeps = !args.skip_trash && target.client.defaults().await.map_err(|error| target.failure(&error))?.trash;
    if keeps {
        match Trash::of(target).take(target).await? {
            Moved::To(trash) if session.output.is_json() => {
                let line = serde_json::json!({ "removed": target.shown(), "trash": trash.path });
                return session.output.json(&line);
            }
            Moved::To(_) => return Ok(()),
            // What lies there was removed before.
            Moved::Within => {}
        }
    }
    match target.client.delete(&target.path, args.recursive).await {
        Ok(true) if session.output.is_json() => session.output.json(&serde_json::json!({ "removed": target.shown() })),
        Ok(true) => Ok(()),
        Ok(false) if args.force => Ok(()),
        Ok(false) => Err(target.failure(&client::Error::NotFound).into()),
        Err(error) => Err(target.failure(&error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_hadoop_is_taken_as_it_is_written_there() {
        let ours = |line: &str| {
            let words = in_our_words(line.split(' ').map(OsString::from));
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ours("levada rm -r -skipTrash /x"), "levada rm -r --skip-trash /x");
        assert_eq!(ours("levada rm -r -- -skipTrash"), "levada rm -r -- -skipTrash", "a path");
        assert_eq!(ours("levada ls -skipTrash"), "levada ls -skipTrash");
    }
}
