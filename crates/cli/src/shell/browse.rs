//! Looking around in a store: what an operand stands for, and what lies below.

use super::failure::{Failure, Stop};
use super::glob::{self, Part};
use super::session::Session;
use super::target::Target;
use client::{Error, Listing, Status};

/// Something that is there.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) target: Target,
    pub(crate) status: Status,
}

impl Session {
    /// As [`Self::find`]. A failure is reported, and nothing was found.
    pub(crate) async fn found(&self, typed: &str) -> Result<Vec<Found>, Stop> {
        Ok(self.settle(self.find(typed).await.map_err(Stop::from))?.unwrap_or_default())
    }

    /// All that an operand stands for; never nothing.
    pub(crate) async fn find(&self, typed: &str) -> Result<Vec<Found>, Failure> {
        let target = self.target(typed)?;
        if !glob::is_pattern(&target.path) {
            return Ok(vec![look(target.with_path(glob::unescape(&target.path))).await?]);
        }
        let mut found = Vec::new();
        for parts in glob::parse(&target.path).map_err(|reason| Failure::usage(&target, reason))? {
            found.extend(expand(&target, &parts).await?);
        }
        if found.is_empty() {
            return Err(Failure::new(&target, "nothing matches the pattern"));
        }
        Ok(found)
    }

    /// Where something is to be put: one place, which may not exist yet.
    pub(crate) async fn place(&self, typed: &str) -> Result<(Target, Option<Status>), Failure> {
        let target = self.target(typed)?;
        if glob::is_pattern(&target.path) {
            let mut found = self.find(typed).await?;
            return match (found.pop(), found.is_empty()) {
                (Some(only), true) => Ok((only.target, Some(only.status))),
                _ => Err(Failure::new(&target, "the pattern stands for several places; name one")),
            };
        }
        let target = target.with_path(glob::unescape(&target.path));
        let status = target.client.status(&target.path).await.map_err(|error| target.failure(&error))?;
        Ok((target, status))
    }
}

async fn look(target: Target) -> Result<Found, Failure> {
    match target.client.existing(&target.path).await {
        Ok(status) => Ok(Found { target, status }),
        Err(error) => {
            let failure = target.failure(&error);
            let at_home = error.is_not_found() && target.path == target.client.home();
            Err(if at_home {
                failure.advise(
                    "that is your home directory; make it with `levada mkdir -p .`, or have a superuser make it",
                )
            } else {
                failure
            })
        }
    }
}

/// Goes down a pattern, component by component. What cannot be listed because it is a file, or went away, has nothing
/// below.
async fn expand(start: &Target, parts: &[Part]) -> Result<Vec<Found>, Failure> {
    let mut places: Vec<(Target, Option<Status>)> = vec![(start.with_path("/".into()), None)];
    for (depth, part) in parts.iter().enumerate() {
        let last = depth + 1 == parts.len();
        let mut next = Vec::new();
        for (place, status) in places {
            match part {
                Part::Name(name) => next.push((place.child(name), None)),
                Part::Pattern(_) if status.is_some_and(|status| !status.is_dir()) => {}
                Part::Pattern(pattern) => {
                    let mut listing = match place.client.list(&place.path).await {
                        Ok(listing) => listing,
                        Err(Error::NotFound | Error::NotADirectory) => continue,
                        Err(error) => return Err(place.failure(&error)),
                    };
                    while let Some(entry) = listing.next().await.map_err(|error| place.failure(&error))? {
                        // A file lists itself with no name.
                        let fits = !entry.name.is_empty() && pattern.matches(&entry.name);
                        if fits && (last || entry.is_dir()) {
                            next.push((place.child(&entry.name), Some(entry)));
                        }
                    }
                }
            }
        }
        places = next;
    }
    let mut found = Vec::with_capacity(places.len());
    for (target, status) in places {
        let status = match status {
            Some(status) => Some(status),
            None => match target.client.status(&target.path).await {
                Err(Error::NotADirectory) => None,
                status => status.map_err(|error| target.failure(&error))?,
            },
        };
        found.extend(status.map(|status| Found { target, status }));
    }
    Ok(found)
}

/// A tree, a directory before what it holds, names in order. Holds one page of each level.
#[derive(Debug)]
pub(crate) struct Walk {
    levels: Vec<(Target, Listing)>,
    start: Option<Found>,
    below: bool,
}

impl Walk {
    /// Begins with `start` itself.
    pub(crate) fn over(start: Found) -> Self {
        Self::over_if(start, true)
    }

    /// `start` alone, unless `below` asks for all that lies below it.
    pub(crate) fn over_if(start: Found, below: bool) -> Self {
        Self { levels: Vec::new(), start: Some(start), below }
    }

    /// An error names the directory that could not be read; the walk goes on beside it.
    pub(crate) async fn next(&mut self) -> Option<Result<Found, Failure>> {
        if let Some(start) = self.start.take() {
            return Some(self.enter(start).await);
        }
        loop {
            let (above, listing) = self.levels.last_mut()?;
            match listing.next().await {
                Ok(Some(status)) => {
                    let target = above.child(&status.name);
                    return Some(self.enter(Found { target, status }).await);
                }
                Ok(None) => drop(self.levels.pop()),
                Err(error) => {
                    let failure = above.failure(&error);
                    self.levels.pop();
                    return Some(Err(failure));
                }
            }
        }
    }

    /// Passes over what lies in the directory that came last.
    pub(crate) fn leave(&mut self) {
        self.levels.pop();
    }

    async fn enter(&mut self, found: Found) -> Result<Found, Failure> {
        if found.status.is_dir() && self.below {
            let listing = found.target.client.list(&found.target.path).await;
            self.levels.push((found.target.clone(), listing.map_err(|error| found.target.failure(&error))?));
        }
        Ok(found)
    }
}
