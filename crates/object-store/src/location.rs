//! Names: the path of an object, and the path of a file.
//!
//! Promise: both have the same text but for the slash in front. What [`Path::from`] encodes stays encoded in the store
//! (`a~b` becomes the file `a%7Eb`), and a file that somebody called `a~b` is the object [`Path::parse`] gives for
//! that. So no two objects are one file, and listing what was put gives what was put.
//!
//! A file whose name has an ASCII control character is no object: a [`Path`] cannot have one. Nor is one that is still
//! being written under a temporary name.

use crate::error::{generic, not_found};
use client::is_unfinished;
use object_store::Result;
use object_store::path::{Path, PathPart};

fn text(location: &Path) -> String {
    format!("/{location}")
}

fn is_hidden(location: &Path) -> bool {
    location.parts().any(|part| is_unfinished(part.as_ref()))
}

/// The file of an object that is looked for.
pub(crate) fn existing(location: &Path) -> Result<String> {
    if location.is_root() || is_hidden(location) {
        return Err(not_found(location));
    }
    Ok(text(location))
}

/// The file of an object that is to be made.
pub(crate) fn new(location: &Path) -> Result<String> {
    if location.is_root() {
        return Err(generic("an object has a name"));
    }
    if is_hidden(location) {
        return Err(generic(format!("/{location}: the name of a file that is not whole yet")));
    }
    Ok(text(location))
}

/// The directory above a file.
pub(crate) fn parent(file: &str) -> &str {
    match file.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// The directory of a prefix. `None`: nothing there is an object.
pub(crate) fn directory(prefix: &Path) -> Option<String> {
    (!is_hidden(prefix)).then(|| text(prefix))
}

/// What lies in a directory under this name. `None`: it is not for those who look for objects.
pub(crate) fn child(directory: &Path, name: &str) -> Option<Path> {
    if name.is_empty() || is_unfinished(name) {
        return None;
    }
    let part = PathPart::parse(name).ok()?;
    Some(directory.clone().join(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_on_both_sides() {
        for (path, file) in [
            (Path::from("a/b~c"), "/a/b%7Ec"),
            (Path::parse("a/b~c").unwrap(), "/a/b~c"),
            (Path::parse("%48").unwrap(), "/%48"),
            (Path::from_iter(["a", "b/c"]), "/a/b%2Fc"),
            (Path::from("/x//y/"), "/x/y"),
            (Path::from(".."), "/%2E%2E"),
        ] {
            assert_eq!(existing(&path).unwrap(), file);
            assert_eq!(new(&path).unwrap(), file);
            let above = path.parent().unwrap();
            assert_eq!(directory(&above).unwrap(), parent(file));
            assert_eq!(child(&above, file.rsplit('/').next().unwrap()), Some(path));
        }
    }

    #[test]
    fn what_is_no_object_has_no_name() {
        assert!(existing(&Path::ROOT).is_err() && new(&Path::ROOT).is_err());
        let unfinished = Path::from("a/x._COPYING_/b");
        assert!(matches!(existing(&unfinished), Err(object_store::Error::NotFound { .. })));
        assert!(new(&unfinished).is_err() && directory(&unfinished).is_none());
        for name in ["", "x._COPYING_", "a\nb", "."] {
            assert_eq!(child(&Path::from("a"), name), None, "{name:?}");
        }
    }
}
