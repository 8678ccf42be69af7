//! What was learned of data sets: by all files that were read ahead in this process, and by earlier ones.
//!
//! A profile is a guess that costs bytes if it is wrong, so nothing that goes wrong with one is an error.

use crate::profile_dir::ProfileDir;
use crate::shared_profiles::SharedProfiles;
use crate::warm::Reached;
use prefetch::Profile;
use prefetch::profile::ProfileName;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Profiles in memory where there is no directory for them, of some KB each at most. A guess, far above the data sets
/// of one program.
const KNOWN_COUNT_MAX: usize = 256;

/// Of one store. Where neither disk nor memory has one, the store itself may, which keeps them for all its users.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub(crate) shared: SharedProfiles,
    dir: Option<ProfileDir>,
    known: Mutex<BTreeMap<ProfileName, Profile>>,
}

impl Profiles {
    /// `dir`: where they outlive the process.
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        Self { shared: SharedProfiles::default(), dir: dir.map(ProfileDir::new), known: Mutex::default() }
    }

    /// May wait for a disk.
    pub(crate) fn get(&self, name: ProfileName) -> Option<Profile> {
        // Another process may have learned more since.
        let kept = self.dir.as_ref().and_then(|dir| dir.read(name));
        kept.or_else(|| self.known().get(&name).cloned())
    }

    /// May wait for a disk. Of two processes at once one may lose what it has learned.
    pub(crate) fn change(&self, name: ProfileName, change: impl FnOnce(Profile) -> Profile) {
        let changed = change(self.get(name).unwrap_or_default());
        if let Some(dir) = &self.dir {
            dir.write(name, &changed);
        }
        let mut known = self.known();
        if known.len() >= KNOWN_COUNT_MAX && !known.contains_key(&name) {
            known.pop_first();
        }
        known.insert(name, changed);
    }

    /// Where a data set was read last. May wait for a disk.
    pub(crate) fn reached(&self, name: ProfileName) -> Option<Reached> {
        self.dir.as_ref()?.read_reached(name)
    }

    /// May wait for a disk.
    pub(crate) fn keep_reached(&self, name: ProfileName, reached: &Reached) {
        if let Some(dir) = self.dir.as_ref().filter(|dir| dir.read_reached(name).as_ref() != Some(reached)) {
            dir.write_reached(name, reached);
        }
    }

    /// Nothing is left half done while it is held.
    fn known(&self) -> MutexGuard<'_, BTreeMap<ProfileName, Profile>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
