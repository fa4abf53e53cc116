//! Errors of the rooms below within those of the verbs.

/// Errors of the library, each with its own sentence and blame, become the variant `Library` of a verb's.
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
