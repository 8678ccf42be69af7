//! Fields of a request that are paths, for the audit log.

/// A path, or several.
pub(crate) trait NamedPaths {
    fn name(self, paths: &mut Vec<String>);
}

impl NamedPaths for String {
    fn name(self, paths: &mut Vec<String>) {
        paths.push(self);
    }
}

impl<T: NamedPaths> NamedPaths for Vec<T> {
    fn name(self, paths: &mut Vec<String>) {
        self.into_iter().for_each(|path| path.name(paths));
    }
}

impl<T: NamedPaths> NamedPaths for Option<T> {
    fn name(self, paths: &mut Vec<String>) {
        self.into_iter().for_each(|path| path.name(paths));
    }
}
