//! Cloning into an existing value, which reuses the memory of its lists.

/// Implements `Clone` for a struct. Unlike the derived one, `clone_from` clones into each field.
macro_rules! clone_in_place {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl Clone for $type {
            fn clone(&self) -> $type {
                let $type { $($field),* } = self;
                $type { $($field: $field.clone()),* }
            }

            fn clone_from(&mut self, source: &$type) {
                let $type { $($field),* } = self;
                $($field.clone_from(&source.$field);)*
            }
        }
    };
}

pub(crate) use clone_in_place;
