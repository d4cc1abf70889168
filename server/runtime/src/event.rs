//! Events. Their clock is simulated: it advances by the predicted time of each kernel, and by nothing else.

use crate::abi::{Address, Out};
use crate::error::{Error, Hip};
use crate::state::{State, lock};

/// An event that the program made.
#[derive(Default)]
pub(crate) struct Event {
    /// Simulated time at which it was recorded, in nanoseconds.
    at_ns: Option<f64>,
}

impl State {
    /// Record an event now; null is no event.
    pub(crate) fn record_event(&mut self, event: Address) -> Hip {
        if event.is_null() {
            return Ok(());
        }
        let now = self.clock_ns;
        self.events
            .get_mut(event.0)
            .ok_or(Error::InvalidHandle)?
            .at_ns = Some(now);
        Ok(())
    }
}

fn create(into: Out<Address>) -> Hip {
    if into.is_null() {
        return Err(Error::InvalidValue);
    }
    let handle = lock().events.add(Event::default());
    into.set(Address(handle))
}

fn known(event: Address) -> Hip {
    let state = lock();
    state.events.get(event.0).ok_or(Error::InvalidHandle)?;
    state.healthy()
}

hip! {
    fn hipEventCreate(into: Out<Address>) {
        create(into)
    }
    fn hipEventCreateWithFlags(into: Out<Address>, _flags: u32) {
        create(into)
    }
    fn hipEventDestroy(event: Address) {
        lock().events.remove(event.0).map(drop).ok_or(Error::InvalidHandle)
    }
    fn hipEventRecord(event: Address, stream: Address) {
        let mut state = lock();
        state.check_stream(stream)?;
        if event.is_null() {
            return Err(Error::InvalidHandle);
        }
        state.record_event(event)
    }
    fn hipEventSynchronize(event: Address) {
        known(event)
    }
    fn hipEventQuery(event: Address) {
        known(event)
    }
    fn hipEventElapsedTime(milliseconds: Out<f32>, start: Address, stop: Address) {
        let state = lock();
        let at = |event: Address| -> Hip<f64> {
            state.events.get(event.0).and_then(|e| e.at_ns).ok_or(Error::InvalidHandle)
        };
        milliseconds.set(((at(stop)? - at(start)?) / 1e6) as f32)
    }
}
