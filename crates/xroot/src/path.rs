//! Paths as clients send them: with opaque information behind a question mark, and often a NUL at the end.

use crate::codes::ErrorCode;
use crate::refusal::Refusal;
use types::FsPath;
use types::path::PathError;

/// The path of a body. What stands behind the `?` (tokens, hints for XRootD's plug-ins) means nothing here. A path is
/// taken as it is: no `%20` becomes a blank, and `.` and `..` are refused as in the namespace.
pub(crate) fn parse(body: &[u8]) -> Result<FsPath, Refusal> {
    let end = body.iter().position(|byte| matches!(byte, b'?' | 0)).unwrap_or(body.len());
    let Some(text) = body.get(..end).filter(|text| !text.is_empty()) else {
        return Err(Refusal::new(ErrorCode::ArgMissing, "no path was given"));
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return Err(Refusal::new(ErrorCode::ArgInvalid, "the path is not UTF-8"));
    };
    FsPath::parse(text).map_err(|error| {
        let code = match error {
            // As XRootD's server says of these.
            PathError::Relative { .. } => ErrorCode::NotAuthorized,
            PathError::TooLong | PathError::NameTooLong { .. } => ErrorCode::ArgTooLong,
            PathError::Component { .. } => ErrorCode::ArgInvalid,
        };
        Refusal::new(code, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_where_opaque_information_begins() {
        let path = |body: &[u8]| parse(body).map(|path| path.to_string()).map_err(|refusal| refusal.code);
        assert_eq!(path(b"//data/a b.root?authz=x&y=/..\0"), Ok("/data/a b.root".into()));
        assert_eq!(path(b"/\0"), Ok("/".into()));
        assert_eq!(path(b"/a%20b"), Ok("/a%20b".into()));
        assert_eq!(path(b"data"), Err(ErrorCode::NotAuthorized));
        assert_eq!(path(b"/a/../b"), Err(ErrorCode::ArgInvalid));
        assert_eq!(path(b"/\xff"), Err(ErrorCode::ArgInvalid));
        assert_eq!(path(&[b'/'; 40_000]), Err(ErrorCode::ArgTooLong));
        assert_eq!((path(b""), path(b"?x")), (Err(ErrorCode::ArgMissing), Err(ErrorCode::ArgMissing)));
    }
}
