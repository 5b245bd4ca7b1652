//! The functions that a program has.

use super::Invocation;
use crate::Block;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a function failed.
pub type FunctionError = Box<dyn std::error::Error + Send + Sync>;

/// A function of a user: from the blocks of its inputs, those of its outputs.
///
/// It is called by several threads at once, may be called again for a block, and must give the same result whenever it is. Every function
/// of this form is one.
pub trait Function: Send + Sync {
    /// One block of every output, of the dtype and shape that the plan expects.
    ///
    /// # Errors
    /// Whatever the function says. The task fails with it and is not tried again.
    fn call(&self, at: &Invocation<'_>, inputs: &[Block]) -> Result<Vec<Block>, FunctionError>;
}

impl<F: Fn(&Invocation<'_>, &[Block]) -> Result<Vec<Block>, FunctionError> + Send + Sync> Function for F {
    fn call(&self, at: &Invocation<'_>, inputs: &[Block]) -> Result<Vec<Block>, FunctionError> {
        self(at, inputs)
    }
}

/// Functions by name and version. Clones share the functions.
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<(String, String), Arc<dyn Function>>);

impl Functions {
    /// Adds a function, instead of an earlier one of that name and version.
    pub fn insert(&mut self, name: impl Into<String>, version: impl Into<String>, function: Arc<dyn Function>) {
        self.0.insert((name.into(), version.into()), function);
    }

    /// A function.
    pub fn get(&self, name: &str, version: &str) -> Option<&Arc<dyn Function>> {
        self.0.get(&(name.to_string(), version.to_string()))
    }

    /// The versions that there are of a function.
    pub fn versions<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.keys().filter(move |(n, _)| n == name).map(|(_, version)| version.as_str())
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The function that a call is bound to, if it is. It is not part of a plan: two calls are equal whether they are bound or not.
#[derive(Clone, Default)]
pub struct Bound(Option<Arc<dyn Function>>);

impl Bound {
    /// Bound to a function.
    pub fn to(function: Arc<dyn Function>) -> Bound {
        Bound(Some(function))
    }

    /// The function.
    pub fn function(&self) -> Option<&dyn Function> {
        self.0.as_deref()
    }
}

impl PartialEq for Bound {
    fn eq(&self, _: &Bound) -> bool {
        true
    }
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "bound" } else { "not bound" })
    }
}
