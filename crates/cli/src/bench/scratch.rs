//! A directory of the store for one run: fresh, and gone at the end, also after Ctrl-C.

use crate::shell::temps::Temp;
use crate::shell::{Failure, Session, Target};
use std::sync::Arc;
use types::Random;

/// Makes a directory below `place`, does `work` in it, and removes it unless it is to be kept.
pub(super) async fn in_directory<T, F>(
    session: &Arc<Session>,
    place: &Target,
    keep: bool,
    work: impl FnOnce(Target) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let dir = place.child(&format!("bench-{:08x}", io::OsRandom::new().next_u64() >> 32));
    // Before it is made, so that no interrupt leaves it behind.
    let ticket = (!keep).then(|| session.temps.open(Temp::Tree(dir.clone())));
    let measured = match make(place, &dir).await {
        Ok(()) => work(dir.clone()).await,
        Err(failure) => Err(failure),
    };
    session.progress.finish();
    if let Some(ticket) = ticket {
        let deleted = dir.client.delete(&dir.path, true).await;
        session.temps.keep(ticket);
        // A failure to write is reported anyway; this one would say the same.
        if let (Err(error), Ok(_)) = (deleted, &measured) {
            session.report(&dir.failure(&error).advise("remove it with `levada rm -r`"));
        }
    }
    measured
}

/// The parent must be there: a misspelt --dir is not to be made.
async fn make(place: &Target, dir: &Target) -> Result<(), Failure> {
    let Err(error) = dir.client.mkdirs(&dir.path, 0o755, false).await else { return Ok(()) };
    let failure = if error.is_not_found() { place.failure(&error) } else { dir.failure(&error) };
    Err(match error {
        client::Error::Denied(_) => {
            failure.advise("name a directory of yours with --dir, or choose the user with --user")
        }
        _ => failure,
    })
}
