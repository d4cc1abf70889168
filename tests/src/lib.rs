//! What the end-to-end tests share: where the binary, the fixtures and the shared data are.
