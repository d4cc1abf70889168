//! The `hipsmith` program: one file per subcommand.

fn main() {}
