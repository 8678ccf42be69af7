//! A file that is read ahead, as programs have it.

use super::layout;
use super::learned::{Learned, News, Run, Sharing};
use super::options::AheadOptions;
use super::shell::Shell;
use super::statistics::AheadStatistics;
use crate::client::Client;
use crate::error::Result;
use crate::profiles::Profiles;
use crate::read::{RangeRead, Reader};
use crate::scope::Task;
use crate::shared_profiles::{SharedName, SharedProfile};
use crate::warm::{self, Reached};
use prefetch::profile::ProfileName;
use prefetch::{Link, Profile};
use std::sync::Arc;
use wire::Abilities;

/// A file open for reading, whose next reads are fetched while the program works on the last ones. Clones share the
/// cache; any number of threads and tasks may read at once.
#[derive(Clone, Debug)]
pub struct Ahead {
    owner: Arc<Owner>,
}

/// The last one takes the tasks with it.
#[derive(Debug)]
struct Owner {
    shell: Arc<Shell<Reader>>,
}

/// Who opens a file far away reads an end of it, of which up to a megabyte is fetched, and then some columns.
const OPENING_LEN: u64 = 1 << 20;
/// Of which nothing is known: a guess, two or three columns of a table of a hundred.
const COLUMNS_SHARE: u64 = 32;

impl Client {
    /// Says that a file will be opened and read ahead: connections to the datanode that served its data set last are
    /// opened meanwhile, as many as earlier runs used; where this user has no profile of it, the store is asked for
    /// one. Nobody waits for them.
    pub fn prepare(&self, path: &str, options: &AheadOptions) {
        let data_set = options.data_set.name_of(&self.url().authority, path);
        let scope = self.store().scope();
        let Some(data_set) = data_set.filter(|_| scope.check().is_ok() && scope.has_runtime()) else { return };
        self.ask_shared(path, options, ProfileName::of(&data_set, None));
        let (client, profiles) = (self.clone(), self.store().profiles());
        scope.spawn_detached("connections", async move {
            let name = ProfileName::of(&data_set, None);
            if let Some(reached) = io::task::blocking(move || profiles.reached(name)).await {
                client.store().warm(&reached.addr.as_str().into(), reached.count as usize);
            }
        });
    }

    /// `own`: this user's own profile, which comes first.
    fn ask_shared(&self, path: &str, options: &AheadOptions, own: ProfileName) {
        let Some(name) = options.data_set.shared_name().map(|name| self.shared_name(path, name)) else { return };
        let (client, profiles, asked) = (self.clone(), self.store().profiles(), name.clone());
        let ask = || {
            self.spawn("shared profile", async move {
                let has_own = io::task::blocking(move || profiles.get(own).is_some()).await;
                if has_own { None } else { client.shared_profile(&asked).await }
            })
        };
        self.store().profiles().shared.ask(name, ask);
    }
}

impl Reader {
    /// The same file, read ahead. What a profile knows of its opening is asked for at once.
    pub async fn ahead(&self, options: &AheadOptions) -> Result<Ahead> {
        let client = self.client().clone();
        let has_ranges = client.defaults().await?.abilities.has(Abilities::RANGES);
        let link = Link {
            bytes_per_s: warm::BYTES_PER_S,
            ranges_per_request: if has_ranges { prefetch::FETCH_RANGES_MAX as u32 } else { 1 },
            ..Link::default()
        };
        let data_set = options.data_set.name_of(&client.url().authority, self.path());
        let opening = data_set.as_ref().map(|data_set| ProfileName::of(data_set, None));
        let shell = Shell::new(self.again(), client.clone(), options.settings(), link, Learned::new(data_set));
        let ahead = Ahead { owner: Arc::new(Owner { shell }) };
        let (profiles, shared) = (client.store().profiles(), options.data_set.shared_name());
        let asked = shared.map(|name| client.shared_name(self.path(), name));
        let asked = asked.map(|name| (profiles.shared.take(&name), name));
        let asking = async {
            let own = match opening {
                Some(name) => io::task::blocking(move || profiles.get(name)).await,
                None => None,
            };
            let (sharing, profile) = shared_with(&client, asked, own).await;
            ahead.owner.shell.lock().learned.share(sharing);
            // Before anything is asked: the first who do take what is there.
            let columns_len = profile.as_ref().map(|profile| profile.columns_len).filter(|len| *len > 0);
            let len = columns_len.unwrap_or(self.len() / COLUMNS_SHARE).max(OPENING_LEN);
            self.warm(len.min(self.len())).await;
            layout::open(&ahead.owner.shell, profile.as_ref());
            Ok(())
        };
        client.run(asking).await?;
        Ok(ahead)
    }
}

impl Ahead {
    /// Bytes of the file, as of its opening.
    #[expect(clippy::len_without_is_empty, reason = "a length, not a collection")]
    pub fn len(&self) -> u64 {
        self.owner.shell.origin.len()
    }

    /// Fills `dest` from `offset`; fewer bytes only at the end of the file.
    pub async fn read_at(&self, offset: u64, dest: &mut [u8]) -> Result<usize> {
        let there = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = dest.len().min(there);
        if wanted > 0 {
            self.read(&mut [RangeRead { offset, dest: &mut dest[..wanted] }]).await?;
        }
        Ok(wanted)
    }

    /// Fills all of `reads`, which may lie anywhere in the file and overlap. What is missing of them comes by one
    /// vectored read, and so do those that will follow. An error if one reaches beyond the end of the file.
    pub async fn read_ranges(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        RangeRead::must_lie_within(reads, self.len())?;
        self.read(reads).await
    }

    async fn read(&self, reads: &mut [RangeRead<'_>]) -> Result<()> {
        let shell = &self.owner.shell;
        shell.client.run(layout::read(shell, reads)).await
    }

    pub fn statistics(&self) -> AheadStatistics {
        // In a process that was forked the lock may be held by nobody who runs.
        let is_forked = self.owner.shell.client.store().scope().is_forked();
        if is_forked { AheadStatistics::default() } else { self.owner.shell.statistics() }
    }

    /// Keeps what was learned so far, for files that this user opens from now on. Done anyway when the last clone is
    /// dropped, and so is [`Ahead::share`].
    pub async fn save(&self) {
        let client = &self.owner.shell.client;
        let Some(found) = self.owner.found() else { return };
        let keeping = async {
            found.save(client.store().profiles()).await;
            Ok(())
        };
        if let Err(error) = client.run(keeping).await {
            tracing::debug!(%error, "what was learned is not kept");
        }
    }

    /// Tells the store what was learned so far, for other users. That takes some round trips.
    pub async fn share(&self) {
        let client = &self.owner.shell.client;
        let Some(news) = self.owner.news() else { return };
        let telling = async {
            news.tell(client).await;
            Ok(())
        };
        if let Err(error) = client.run(telling).await {
            tracing::debug!(%error, "what was learned is not shared");
        }
    }
}

/// What the store keeps for who has no profile of his own, and the profile to begin with. The store was asked with the
/// opening, so its answer is there by now.
async fn shared_with(
    client: &Client,
    asked: Option<(Option<Task<Option<SharedProfile>>>, SharedName)>,
    own: Option<Profile>,
) -> (Option<Sharing>, Option<Profile>) {
    let Some((answer, name)) = asked else { return (None, own) };
    let answer = answer.filter(|_| own.is_none());
    let was_asked = answer.is_some();
    let said = match answer {
        Some(answer) => tokio::time::timeout(layout::asking_max(client), answer).await.ok(),
        None => None,
    };
    let said = said.and_then(Result::ok).flatten();
    let profile = own.or_else(|| Some(said.as_ref()?.profile.clone()));
    let known = profile.clone().unwrap_or_default();
    (Some(Sharing { name, known, said, was_asked }), profile)
}

/// What is to be kept of a run.
struct Found {
    runs: Vec<Run>,
    reached: Option<(ProfileName, Reached)>,
}

impl Found {
    /// May wait for a disk.
    fn keep(self, profiles: &Profiles) {
        let Self { runs, reached } = self;
        runs.into_iter().for_each(|run| run.keep(profiles));
        if let Some((name, reached)) = reached {
            profiles.keep_reached(name, &reached);
        }
    }

    async fn save(self, profiles: Arc<Profiles>) {
        io::task::blocking(move || self.keep(&profiles)).await;
    }
}

impl Owner {
    /// What the store is to be told.
    fn news(&self) -> Option<News> {
        if self.shell.client.store().scope().is_forked() {
            return None;
        }
        let mut state = self.shell.lock();
        let observed = state.machine.observed();
        state.learned.news(&observed)
    }

    /// In a process that was forked the lock may be held by nobody who runs.
    fn found(&self) -> Option<Found> {
        let store = self.shell.client.store();
        if store.scope().is_forked() {
            return None;
        }
        let mut state = self.shell.lock();
        let observed = state.machine.observed();
        let runs = state.learned.take(&observed);
        let name = state.learned.data_set().map(|data_set| ProfileName::of(&data_set, None));
        (!runs.is_empty()).then(|| Found { runs, reached: name.zip(store.reached()) })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let store = self.shell.client.store();
        if store.scope().is_forked() {
            return;
        }
        let (found, news) = (self.found(), self.news());
        self.shell.close();
        let (client, profiles) = (self.shell.client.clone(), store.profiles());
        // Some hundred bytes are written, but the disk may be another machine's.
        if store.scope().check().is_ok() && store.scope().has_runtime() {
            store.scope().spawn_detached("profiles", async move {
                if let Some(found) = found {
                    found.save(profiles).await;
                }
                if let Some(news) = news {
                    news.tell(&client).await;
                }
            });
        } else if let Some(found) = found {
            found.keep(&profiles);
        }
    }
}
