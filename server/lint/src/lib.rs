//! Rules: one file each, with documentation, check, fix and tests.
