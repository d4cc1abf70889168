//! From HIP text to a kernel model: mask, parse, constants, lane evaluation. No LSP, no I/O, never fails.
