//! The library of this process.

use super::calling::{Calling, wait_at_exit};
use super::functions::{Functions, LIBRARY, LoadError, Loaded};
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Library(Functions);

static LIBRARY_OF_PROCESS: OnceLock<Library> = OnceLock::new();

impl Library {
    /// Loads it at the first call; after a failure, at the next one again, as it may have been installed.
    pub(crate) fn get() -> Result<&'static Self, LoadError> {
        if let Some(library) = LIBRARY_OF_PROCESS.get() {
            return Ok(library);
        }
        let functions = Functions::find(&Loaded::open(LIBRARY)?)?;
        Ok(LIBRARY_OF_PROCESS.get_or_init(|| {
            wait_at_exit();
            Self(functions)
        }))
    }

    /// For one call.
    pub(super) fn calling(&self) -> Calling<'_> {
        Calling::begin(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let refused = Loaded::open(c"libgssapi_of_nobody.so.2").map(|_| ()).unwrap_err().to_string();
        assert!(refused.starts_with("Kerberos needs libgssapi_of_nobody.so.2, which cannot be loaded (libgssapi_of"));
        assert!(refused.contains("install libgssapi-krb5-2 (Debian"), "{refused}");
        let other = Functions::find(&Loaded::open(c"libc.so.6").unwrap()).unwrap_err().to_string();
        assert_eq!(other, "libc.so.6 has no gss_import_name: MIT Kerberos 1.11 or newer is needed");
    }
}
