//! Conversion of the library's errors to those of the verbs.

/// Converts errors of the library, each with its own message and blame, to the variant `Library` of a verb's error.
macro_rules! of_library {
    ($verb:ty: $($error:ty),+) => {
        $(impl From<$error> for $verb {
            fn from(e: $error) -> Self {
                Self::Library(e.into())
            }
        })+
    };
}
pub(crate) use of_library;
