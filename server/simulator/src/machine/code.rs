//! Decoded code of one code object.

use std::collections::BTreeMap;

use hipsmith_process::Cancel;

use crate::object::Image;

/// All instructions of a code object, decoded.
pub(crate) struct Code {}

impl Code {
    pub(crate) fn disassemble(_image: &Image, _cancel: &Cancel) -> Result<Self, String> {
        Err("execution is not there yet".to_owned())
    }
    pub(crate) fn unimplemented(&self) -> BTreeMap<String, usize> {
        BTreeMap::new()
    }
}
