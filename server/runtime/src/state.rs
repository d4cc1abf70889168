//! What the runtime knows of the program: one state for the process, behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hipsmith_simulator::{Kernel, Limits, Memory, Simulator};
use hipsmith_target::Target;

use crate::capture::Capture;
use crate::error::Error;
use crate::event::Event;
use crate::module::Loaded;
use crate::registration::{Function, Variable};
use crate::report::Recorder;
use crate::stream::Stream;

/// Everything behind the API.
pub(crate) struct State {
    pub(crate) simulator: Simulator,
    pub(crate) limits: Limits,
    /// Allocations are whole pages, as on a device, instead of the bytes that were asked for.
    pub(crate) whole_pages: bool,
    /// Modules by handle: those inside the program and those it loads.
    pub(crate) modules: Handles<Loaded>,
    /// Kernels inside the program, by the address of their host stub.
    pub(crate) functions: HashMap<usize, Function>,
    /// Device variables inside the program, by the address of their host shadow.
    pub(crate) variables: HashMap<usize, Variable>,
    /// `hipFunction_t` handles.
    pub(crate) kernels: Handles<Arc<Kernel>>,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    /// Simulated time since the program began, in nanoseconds: the sum of the kernels' predicted times.
    pub(crate) clock_ns: f64,
    pub(crate) recorder: Recorder,
    pub(crate) capture: Option<Capture>,
    /// A faulted device stays faulted.
    pub(crate) sticky: Option<Error>,
}

impl State {
    fn new() -> Self {
        let target = target();
        let simulator = Simulator::new(target, Memory::new());
        let mut limits = Limits::default();
        if let Some(seconds) = number::<f64>("HIPSMITH_KERNEL_TIMEOUT")
            && let Ok(timeout) = Duration::try_from_secs_f64(seconds)
        {
            limits.timeout = timeout;
        }
        Self {
            limits,
            whole_pages: std::env::var_os("HIPSMITH_BOUNDS").is_some_and(|b| b == "page"),
            modules: Handles::new(),
            functions: HashMap::new(),
            variables: HashMap::new(),
            kernels: Handles::new(),
            streams: Handles::new(),
            events: Handles::new(),
            clock_ns: 0.0,
            recorder: Recorder::new(target),
            capture: Capture::from_environment(),
            sticky: None,
            simulator,
        }
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.simulator.memory()
    }

    pub(crate) fn target(&self) -> &'static Target {
        self.simulator.target()
    }

    /// The error of a device that has faulted, if it has.
    pub(crate) fn healthy(&self) -> Result<(), Error> {
        self.sticky.map_or(Ok(()), Err)
    }
}

fn target() -> &'static Target {
    let Some(name) = std::env::var_os("HIPSMITH_TARGET").filter(|n| !n.is_empty()) else {
        return hipsmith_target::default_target();
    };
    let name = name.to_string_lossy();
    hipsmith_target::by_name(&name).unwrap_or_else(|| {
        let fallback = hipsmith_target::default_target();
        say(&format!(
            "HIPSMITH_TARGET names {name}, which is no known target; {} is simulated",
            fallback.name
        ));
        fallback
    })
}

/// A number from the environment; what is no number is said and ignored.
pub(crate) fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok().filter(|t| !t.is_empty())?;
    let number = text.parse().ok();
    if number.is_none() {
        say(&format!(
            "{variable} is `{text}`, which is no number; it is ignored"
        ));
    }
    number
}

/// One sentence for the user, on standard error.
pub(crate) fn say(sentence: &str) {
    use std::io::Write;
    // A closed standard error must not take the user's program down.
    let _ = writeln!(std::io::stderr(), "hipsmith: {sentence}");
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    // SAFETY: registers a function without arguments that never unwinds.
    unsafe { libc::atexit(at_exit) };
    Mutex::new(State::new())
});

/// The state, for as long as the guard lives.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn at_exit() {
    let _ = std::panic::catch_unwind(|| {
        // A thread that still holds the lock at exit must not hang the program.
        if let Ok(mut state) = STATE.try_lock() {
            if let Some(capture) = &state.capture
                && let Some(sentence) = capture.unmet()
            {
                say(&sentence);
                state.recorder.fault(None, sentence, None);
            }
            state.recorder.write(true);
        }
    });
}

/// Objects that C code holds by an opaque pointer. A handle is never dereferenced, so a wild one is only unknown.
pub(crate) struct Handles<T> {
    next: usize,
    live: HashMap<usize, T>,
}

impl<T> Handles<T> {
    fn new() -> Self {
        // Above the small numbers that HIP gives a meaning as streams.
        Self {
            next: 0x1000,
            live: HashMap::new(),
        }
    }
    pub(crate) fn add(&mut self, object: T) -> usize {
        let handle = self.next;
        self.next += 0x10;
        self.live.insert(handle, object);
        handle
    }
    pub(crate) fn get(&self, handle: usize) -> Option<&T> {
        self.live.get(&handle)
    }
    pub(crate) fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.live.get_mut(&handle)
    }
    pub(crate) fn remove(&mut self, handle: usize) -> Option<T> {
        self.live.remove(&handle)
    }
}
