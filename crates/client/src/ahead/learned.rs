//! What a run has read of a file, and under which names it is kept for later ones.
//!
//! Of two names the first is of the data set alone: headers, footers and patterns of offsets, which are asked for with
//! the opening. So are columns, by the numbers that they had in the file of the last run: a store that knows where they
//! lie sends them. The second, of the data set and its columns, is known once the layout is.
//!
//! Who has no profile of his own begins with the one that the store keeps for all ([`Sharing`]), and who has read what
//! that does not say tells the store.

use crate::client::Client;
use crate::profiles::Profiles;
use crate::shared_profiles::{SharedName, SharedProfile};
use prefetch::Profile;
use prefetch::profile::ProfileName;

#[derive(Debug, Default)]
pub(super) struct Learned {
    data_set: Option<String>,
    columns: Option<ProfileName>,
    sharing: Option<Sharing>,
    /// Hash of the names of the columns, as [`SharedProfile::schema`].
    schema: [u8; 16],
    /// What of this run was kept already, of either.
    kept: Kept,
}

/// With all who read the data set.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) name: SharedName,
    /// What this user's next run begins with; the store was told that, or has told it.
    pub(super) known: Profile,
    /// What the store said. `None`: it was not asked, or has none.
    pub(super) said: Option<SharedProfile>,
    pub(super) was_asked: bool,
}

/// What the store does not say.
#[derive(Debug)]
pub(super) struct News {
    name: SharedName,
    schema: [u8; 16],
    run: Profile,
    said: Option<SharedProfile>,
    was_asked: bool,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    opening: Option<Profile>,
    columns: Option<Profile>,
}

/// What is to be kept under a name: what this run has read, and what of that was kept before.
#[derive(Debug)]
pub(super) struct Run {
    name: ProfileName,
    before: Option<Profile>,
    run: Profile,
}

impl Learned {
    /// `None`: nothing is kept.
    pub(super) fn new(data_set: Option<String>) -> Self {
        Self { data_set, ..Self::default() }
    }

    pub(super) fn data_set(&self) -> Option<String> {
        self.data_set.clone()
    }

    pub(super) fn with_columns(&mut self, name: Option<ProfileName>, schema: ProfileName) {
        (self.columns, self.schema) = (name, schema.0);
    }

    pub(super) fn share(&mut self, sharing: Option<Sharing>) {
        self.sharing = sharing;
    }

    /// What the store says of columns, if those of this file have the same names.
    pub(super) fn shared_columns(&self) -> Option<Profile> {
        let said = self.sharing.as_ref()?.said.as_ref().filter(|said| said.schema == self.schema)?;
        Some(Profile { opening: Vec::new(), patterns: Vec::new(), ..said.profile.clone() })
    }

    /// What the store is to be told of a run that has read this; it counts as told from now on.
    pub(super) fn news(&mut self, observed: &Profile) -> Option<News> {
        let (schema, sharing) = (self.schema, self.sharing.as_mut()?);
        if observed.is_empty() || sharing.known.says(observed) {
            return None;
        }
        sharing.known = sharing.known.after(observed);
        let (name, run) = (sharing.name.clone(), observed.clone());
        Some(News { name, schema, run, said: sharing.said.clone(), was_asked: sharing.was_asked })
    }

    /// What there is to keep of a run that has read this; it is taken for kept from now on.
    pub(super) fn take(&mut self, observed: &Profile) -> Vec<Run> {
        let Some(data_set) = &self.data_set else { return Vec::new() };
        let opening = observed.clone();
        let columns = Profile { opening: Vec::new(), patterns: Vec::new(), ..observed.clone() };
        let of_data_set = Some(ProfileName::of(data_set, None));
        let all = [(of_data_set, opening, &mut self.kept.opening), (self.columns, columns, &mut self.kept.columns)];
        let runs = all.into_iter().filter_map(|(name, run, kept)| {
            let name = name.filter(|_| !run.is_empty() && kept.as_ref() != Some(&run))?;
            Some(Run { name, before: kept.replace(run.clone()), run })
        });
        runs.collect()
    }
}

impl Run {
    /// May wait for a disk.
    pub(super) fn keep(self, profiles: &Profiles) {
        let Self { name, before, run } = self;
        profiles.change(name, |known| match before {
            None => known.after(&run),
            // It is still the same run: what it has read before is not to count twice.
            Some(before) => known.merge(&Profile {
                opening: run.opening.into_iter().filter(|read| !before.opening.contains(read)).collect(),
                runs: 0,
                ..run
            }),
        });
    }
}

impl News {
    pub(super) async fn tell(self, client: &Client) {
        let Self { name, schema, run, said, was_asked } = self;
        let said = if was_asked { said } else { client.shared_profile(&name).await };
        let before = match said {
            Some(said) if said.schema == schema => said.profile,
            // Its numbers are of other columns.
            Some(said) => Profile { tables: Vec::new(), columns_len: 0, ..said.profile },
            None => Profile::default(),
        };
        if !before.says(&run) {
            client.share_profile(&name, &SharedProfile { schema, profile: before.after(&run) }).await;
        }
    }
}
