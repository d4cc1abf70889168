//! Ctrl-C and SIGTERM: stop the programs that we started, then end in order.

use hipsmith_process::Cancel;

/// A token that is cancelled when somebody interrupts us. Child processes have process groups of their own, so
/// without this a Ctrl-C would leave compiler and simulator running.
pub fn cancel_on_interrupt() -> Cancel {
    let cancel = Cancel::new();
    let token = cancel.clone();
    if let Err(error) = ctrlc::set_handler(move || token.cancel()) {
        tracing::warn!("interrupts are not handled: {error}");
    }
    cancel
}
