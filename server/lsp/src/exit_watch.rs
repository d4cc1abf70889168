//! Runs the server until the client leaves, in whichever way it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};
use tower_lsp::jsonrpc::{Request, Response};
use tower_lsp::{LspService, Server};

use crate::backend::Backend;
use crate::event::Event;
use crate::{frames, main_loop};

/// Requests that may be in flight at once. Each only waits for its answer, so the number bounds memory, not work.
const CONCURRENCY: usize = 256;

/// Bytes between the filter of messages and the protocol library.
const PIPE: usize = 1 << 20;

/// How often to look whether the client's process still lives.
const CLIENT_CHECK: Duration = Duration::from_secs(1);

/// What we learn about the client's wish to leave.
#[derive(Debug, Default)]
pub struct Lifecycle {
    /// `shutdown` was seen.
    pub shutdown: AtomicBool,
    /// The client's process id, 0 if it named none.
    pub client: AtomicU32,
    exit: Notify,
}

/// Serve one client over `input` and `output`; returns 0 if it said `shutdown` before it left, else 1.
pub async fn serve(input: impl AsyncRead + Unpin, output: impl AsyncWrite) -> i32 {
    let lifecycle = Arc::new(Lifecycle::default());
    let (events, inbox) = mpsc::unbounded_channel();
    let (service, socket) = {
        let (events, lifecycle) = (events.clone(), lifecycle.clone());
        let start = std::sync::Mutex::new(Some(inbox));
        LspService::build(move |client| {
            if let Some(inbox) = start.lock().ok().and_then(|mut inbox| inbox.take()) {
                tokio::spawn(main_loop::run(client, events.clone(), inbox));
            }
            Backend::new(events.clone(), lifecycle.clone())
        })
        .custom_method("hipsmith/jobs", Backend::jobs)
        .custom_method("hipsmith/jobResult", Backend::job_result)
        .custom_method("window/workDoneProgress/cancel", Backend::progress_cancel)
        .finish()
    };
    let watched = Watch {
        inner: service,
        lifecycle: lifecycle.clone(),
    };
    let (checked, filtered) = tokio::io::duplex(PIPE);
    let server = Server::new(filtered, output, socket)
        .concurrency_level(CONCURRENCY)
        .serve(watched);
    // The end of input reaches the server through the pipe.
    let served = async { tokio::join!(frames::filter(input, checked), server) };
    tokio::select! {
        _ = served => {}
        () = lifecycle.exit.notified() => {}
        () = client_dies(lifecycle.clone()) => tracing::info!("the client's process is gone"),
    }
    // Jobs and compilations hold child processes: they are told to stop before the process ends, with or without a
    // shutdown request. The loop answers within its own limit.
    let (reply, stopped) = tokio::sync::oneshot::channel();
    if events.send(Event::Shutdown(reply)).is_ok() {
        let _ = stopped.await;
    }
    i32::from(!lifecycle.shutdown.load(Ordering::SeqCst))
}

/// Returns when the client's process has been there and is gone. A client in another container has a number that means
/// nothing here; then, and where the system does not list its processes, only the end of input tells.
async fn client_dies(lifecycle: Arc<Lifecycle>) {
    let mut was_there = false;
    loop {
        tokio::time::sleep(CLIENT_CHECK).await;
        let pid = lifecycle.client.load(Ordering::SeqCst);
        if pid == 0 {
            continue;
        }
        let is_there = std::path::Path::new(&format!("/proc/{pid}")).exists();
        if was_there && !is_there {
            return;
        }
        was_there |= is_there;
    }
}

/// Passes every message on, and notes `shutdown` and `exit`, which must work though input stays open.
struct Watch<S> {
    inner: S,
    lifecycle: Arc<Lifecycle>,
}

impl<S> tower::Service<Request> for Watch<S>
where
    S: tower::Service<Request, Response = Option<Response>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match request.method() {
            "shutdown" => self.lifecycle.shutdown.store(true, Ordering::SeqCst),
            "exit" => self.lifecycle.exit.notify_one(),
            _ => {}
        }
        self.inner.call(request)
    }
}
