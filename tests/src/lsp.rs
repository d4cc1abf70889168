//! A small language client: drives a server over pipes, answers its requests as an editor would, and keeps everything
//! the server said so that tests can wait for it in any order.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a test waits for something that must come.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A client and, when it started one, its server process.
pub struct Client {
    out: Option<Box<dyn Write + Send>>,
    incoming: Receiver<Value>,
    /// Requests and notifications of the server, oldest first, that no wait has taken yet.
    pub seen: Vec<Value>,
    /// Answer nothing that the server asks.
    pub silent: bool,
    /// What `workspace/applyEdit` is answered with.
    pub applies: bool,
    /// The answer to `workspace/configuration`.
    pub configuration: Value,
    next_id: u64,
    child: Option<Child>,
}

impl Client {
    /// Talk to a server over any pair of pipes.
    pub fn over(input: impl Read + Send + 'static, out: impl Write + Send + 'static) -> Self {
        let (sender, incoming) = channel();
        std::thread::spawn(move || {
            let mut input = BufReader::new(input);
            while let Some(message) = read_message(&mut input) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self {
            out: Some(Box::new(out)),
            incoming,
            seen: Vec::new(),
            silent: false,
            applies: true,
            configuration: Value::Null,
            next_id: 0,
            child: None,
        }
    }

    /// Start `hipsmith lsp` as an editor does.
    ///
    /// # Panics
    /// When the binary does not start.
    pub fn start(binary: &Path) -> Self {
        let mut child = Command::new(binary)
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the server starts");
        let input = child.stdout.take().expect("stdout is piped");
        let out = child.stdin.take().expect("stdin is piped");
        let mut client = Self::over(input, out);
        client.child = Some(child);
        client
    }

    /// Say `initialize` and `initialized`; returns the server's capabilities.
    pub fn initialize(&mut self, capabilities: Value, options: Value) -> Value {
        let params = json!({
            "processId": null,
            "rootUri": null,
            "capabilities": capabilities,
            "initializationOptions": options,
        });
        let answer = self
            .request("initialize", params)
            .expect("initialize is answered");
        self.notify("initialized", json!({}));
        answer["capabilities"].clone()
    }

    /// Send raw bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // A server that has left is found by whoever waits for its answer.
        if let Some(out) = &mut self.out {
            let _ = out.write_all(bytes);
            let _ = out.flush();
        }
    }

    /// Send any message.
    pub fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    /// Send a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Send a request and return its id without waiting.
    pub fn post(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Send a request and wait for its answer: the result, or the error object.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.post(method, params);
        self.answer(id)
    }

    /// Wait for the answer to the request with this id.
    pub fn answer(&mut self, id: u64) -> Result<Value, Value> {
        let mut message = self.wait(&format!("the answer to request {id}"), |m| {
            m["id"] == id && m.get("method").is_none()
        });
        match message.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(message["result"].take()),
        }
    }

    /// Wait for a message and take it out of those seen.
    ///
    /// # Panics
    /// When it does not come.
    pub fn wait(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.wait_at_most(PATIENCE, &is).unwrap_or_else(|| {
            let methods: Vec<&str> = self
                .seen
                .iter()
                .filter_map(|m| m["method"].as_str())
                .collect();
            panic!("{what} did not come; seen: {methods:?}")
        })
    }

    /// The same with a limit, and `None` when it does not come.
    pub fn wait_at_most(&mut self, limit: Duration, is: impl Fn(&Value) -> bool) -> Option<Value> {
        let until = Instant::now() + limit;
        loop {
            if let Some(at) = self.seen.iter().position(&is) {
                return Some(self.seen.remove(at));
            }
            match self
                .incoming
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Note one message, and answer it if it is a request.
    fn take(&mut self, message: Value) {
        if let (Some(method), Some(id), false) =
            (message["method"].as_str(), message.get("id"), self.silent)
        {
            let result = match method {
                "workspace/configuration" => json!([self.configuration]),
                "workspace/applyEdit" => json!({ "applied": self.applies }),
                "window/showDocument" => json!({ "success": true }),
                _ => Value::Null,
            };
            self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        }
        self.seen.push(message);
    }

    /// Open a document.
    pub fn open(&mut self, uri: &str, text: &str) {
        self.notify(
            "textDocument/didOpen",
            json!({ "textDocument": { "uri": uri, "languageId": "hip", "version": 1, "text": text } }),
        );
    }

    /// Replace a document's whole text.
    pub fn replace(&mut self, uri: &str, version: i32, text: &str) {
        self.change(uri, version, json!([{ "text": text }]));
    }

    /// Send content changes.
    pub fn change(&mut self, uri: &str, version: i32, changes: Value) {
        self.notify(
            "textDocument/didChange",
            json!({ "textDocument": { "uri": uri, "version": version }, "contentChanges": changes }),
        );
    }

    /// Wait for the diagnostics of one version of a document.
    pub fn diagnostics(&mut self, uri: &str, version: i32) -> Vec<Value> {
        self.published(uri, |params| params["version"] == version)
    }

    /// Wait for diagnostics of a document that fulfil a condition.
    pub fn published(&mut self, uri: &str, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut message = self.wait(&format!("diagnostics of {uri}"), |m| {
            m["method"] == "textDocument/publishDiagnostics"
                && m["params"]["uri"] == uri
                && is(&m["params"])
        });
        match message["params"]["diagnostics"].take() {
            Value::Array(all) => all,
            other => panic!("diagnostics are a list, not {other}"),
        }
    }

    /// Wait for the empty diagnostics of a document that was closed; what was shown before them is forgotten.
    ///
    /// # Panics
    /// When they are not empty.
    pub fn diagnostics_on_close(&mut self, uri: &str) {
        let shown = self.published(uri, |params| params.get("version").is_none());
        assert!(
            shown.is_empty(),
            "a closed document has no diagnostics: {shown:?}"
        );
        self.seen.retain(|m| m["params"]["uri"] != uri);
    }

    /// Run a command with one argument.
    pub fn command(&mut self, name: &str, argument: Value) -> Result<Value, Value> {
        self.request(
            "workspace/executeCommand",
            json!({ "command": name, "arguments": [argument] }),
        )
    }

    /// Close the pipe to the server.
    pub fn close_input(&mut self) {
        self.out = None;
    }

    /// The server process.
    ///
    /// # Panics
    /// When this client started none.
    pub fn child(&mut self) -> &mut Child {
        self.child
            .as_mut()
            .expect("this client started a server process")
    }

    /// The most memory that the server process has held at once, as the system says it: "48212 kB".
    pub fn peak_memory(&mut self) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child().id()));
        status
            .unwrap_or_default()
            .lines()
            .find_map(|l| Some(l.strip_prefix("VmHWM:")?.trim().to_owned()))
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// Wait until the server process has ended; `None` when it does not within the limit.
    pub fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child().try_wait().expect("a child can be waited for") {
                return Some(status);
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn read_message(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(n) = line.strip_prefix("Content-Length: ") {
            length = n.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Apply LSP text edits (in any order, not overlapping) to a text, with columns in UTF-16 units or bytes.
///
/// # Panics
/// When an edit lies outside the text: the server must not send such.
pub fn apply_edits(text: &str, edits: &[Value], utf16: bool) -> String {
    let mut bytes: Vec<(usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let at = |which: &str| offset(text, &edit["range"][which], utf16);
            (
                at("start"),
                at("end"),
                edit["newText"].as_str().expect("an edit has newText"),
            )
        })
        .collect();
    bytes.sort_by_key(|(start, end, _)| (*start, *end));
    let mut out = text.to_owned();
    for (start, end, new) in bytes.into_iter().rev() {
        out.replace_range(start..end, new);
    }
    out
}

/// The byte offset of an LSP position, by counting characters.
///
/// # Panics
/// When the position is not in the text.
pub fn offset(text: &str, position: &Value, utf16: bool) -> usize {
    let number =
        |key: &str| usize::try_from(position[key].as_u64().expect("a number")).expect("small");
    let line_start = text
        .split_inclusive('\n')
        .take(number("line"))
        .map(str::len)
        .sum::<usize>();
    let mut left = number("character");
    let mut at = line_start;
    for c in text[line_start..].chars() {
        if left == 0 {
            break;
        }
        assert!(c != '\n', "a column beyond its line");
        left -= if utf16 { c.len_utf16() } else { c.len_utf8() };
        at += c.len_utf8();
    }
    assert_eq!(left, 0, "a column beyond the text");
    at
}

/// The LSP position of a byte offset, by counting characters.
pub fn position(text: &str, offset: usize, utf16: bool) -> Value {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let in_line = &before[line_start..];
    let column = if utf16 {
        in_line.chars().map(char::len_utf16).sum()
    } else {
        in_line.len()
    };
    json!({ "line": before.matches('\n').count(), "character": column })
}
