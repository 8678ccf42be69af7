//! What a run has read of a file, and under which names it is kept for later ones.
//!
//! Of two names the first is of the data set alone: headers, footers and patterns of offsets, which are asked for with
//! the opening. So are columns, by the numbers that they had in the file of the last run: a store that knows where they
//! lie sends them. The second, of the data set and its columns, is known once the layout is.

use crate::profiles::Profiles;
use prefetch::Profile;
use prefetch::profile::ProfileName;

#[derive(Debug, Default)]
pub(super) struct Learned {
    data_set: Option<String>,
    columns: Option<ProfileName>,
    /// What of this run was kept already, of either.
    kept: Kept,
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

    pub(super) fn with_columns(&mut self, name: Option<ProfileName>) {
        self.columns = name;
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
