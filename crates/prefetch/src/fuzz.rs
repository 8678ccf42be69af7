//! What comes from outside, as functions of bytes, for fuzz targets. Whatever the bytes are, none panics.

use crate::prefetcher::Prefetcher;
use crate::profile::Profile;
use crate::settings::{Link, Settings};
use crate::span::Span;

/// A profile; and what a machine makes of it in a file of 1 MB.
pub fn profile(bytes: &[u8]) {
    let Ok(profile) = Profile::decode(bytes) else { return };
    let again = Profile::decode(&profile.encode()).expect("what was read can be written");
    assert_eq!(again.encode(), profile.encode());
    assert_eq!(profile.after(&again), profile.after(&profile.merge(&Profile::default())));
    let settings = Settings { cache_len: 100_000, cache_len_least: 0, ..Settings::default() };
    let mut machine = Prefetcher::new(settings, Link::default(), 1 << 20);
    let mut actions = Vec::new();
    machine.open(None, Some(&profile), &mut actions);
    for offset in [0, 1000, 2000, 3000, 1 << 19, (1 << 20) - 10] {
        machine.read(Span::new(offset, 1000), &mut actions);
        machine.check();
    }
}
