//! Streams. Work is done when it is asked for, so a stream only has to exist.

use crate::abi::{Address, Out};
use crate::error::{Error, Hip};
use crate::state::{State, lock};

/// A stream that the program made.
pub(crate) struct Stream {
    flags: u32,
    priority: i32,
}

/// `hipStreamLegacy` and `hipStreamPerThread`, beside null.
const ALWAYS_THERE: usize = 2;

impl State {
    /// An unknown stream is an invalid handle.
    pub(crate) fn check_stream(&self, stream: Address) -> Hip {
        if stream.0 <= ALWAYS_THERE || self.streams.get(stream.0).is_some() {
            Ok(())
        } else {
            Err(Error::InvalidHandle)
        }
    }
}

fn create(into: Out<Address>, flags: u32, priority: i32) -> Hip {
    if into.is_null() {
        return Err(Error::InvalidValue);
    }
    let handle = lock().streams.add(Stream { flags, priority });
    into.set(Address(handle))
}

fn synchronize(stream: Address) -> Hip {
    let state = lock();
    state.check_stream(stream)?;
    state.healthy()
}

hip! {
    fn hipStreamCreate(into: Out<Address>) {
        create(into, 0, 0)
    }
    fn hipStreamCreateWithFlags(into: Out<Address>, flags: u32) {
        if flags > 1 {
            return Err(Error::InvalidValue);
        }
        create(into, flags, 0)
    }
    fn hipStreamCreateWithPriority(into: Out<Address>, flags: u32, priority: i32) {
        if flags > 1 {
            return Err(Error::InvalidValue);
        }
        create(into, flags, priority)
    }
    fn hipStreamDestroy(stream: Address) {
        lock().streams.remove(stream.0).map(drop).ok_or(Error::InvalidHandle)
    }
    fn hipStreamSynchronize(stream: Address) {
        synchronize(stream)
    }
    fn hipStreamSynchronize_spt(stream: Address) {
        synchronize(stream)
    }
    fn hipStreamQuery(stream: Address) {
        synchronize(stream)
    }
    fn hipStreamWaitEvent(stream: Address, event: Address, _flags: u32) {
        let state = lock();
        state.check_stream(stream)?;
        state.events.get(event.0).map(drop).ok_or(Error::InvalidHandle)
    }
    fn hipStreamGetFlags(stream: Address, into: Out<u32>) {
        let state = lock();
        state.check_stream(stream)?;
        into.set(state.streams.get(stream.0).map_or(0, |s| s.flags))
    }
    fn hipStreamGetPriority(stream: Address, into: Out<i32>) {
        let state = lock();
        state.check_stream(stream)?;
        into.set(state.streams.get(stream.0).map_or(0, |s| s.priority))
    }
    /// Streams are never captured into a graph here: 0 is `hipStreamCaptureStatusNone`.
    fn hipStreamIsCapturing(stream: Address, status: Out<i32>) {
        lock().check_stream(stream)?;
        status.set(0)
    }
    fn hipDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        least.set_if_wanted(0);
        greatest.set_if_wanted(0);
        Ok(())
    }
    /// The work before the callback is done, so it is called at once.
    fn hipStreamAddCallback(
        stream: Address,
        callback: Option<extern "C" fn(Address, i32, Address)>,
        data: Address,
        _flags: u32,
    ) {
        let status = {
            let state = lock();
            state.check_stream(stream)?;
            state.healthy().map_or_else(|e| e.0, |()| 0)
        };
        callback.ok_or(Error::InvalidValue)?(stream, status, data);
        Ok(())
    }
}
