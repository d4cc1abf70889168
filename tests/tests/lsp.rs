//! The language server as an editor meets it: in this process over a pipe of its own, and as the real binary over pipes.

use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use hipsmith_tests::lsp::{Client, apply_edits, offset, position};
use hipsmith_tests::{hipcc, hipsmith, root};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const URI: &str = "file:///nowhere/count.hip";
const RULE: &str = "ballot-in-32-bits";

/// One fault: the upper half of the ballot is cut off.
const FAULTY: &str = "\
__global__ void count_positive(const float *x, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int mask = __ballot(i < n && x[i] > 0.0f);
    if (threadIdx.x % warpSize == 0)
        atomicAdd(count, __popc(mask));
}
";

/// The client's end of an in-process pipe, for blocking code.
struct Blocking<T>(T, tokio::runtime::Handle);

impl<T: AsyncRead + Unpin> Read for Blocking<T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1.block_on(self.0.read(buffer))
    }
}

impl<T: AsyncWrite + Unpin> Write for Blocking<T> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.block_on(self.0.write(bytes))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.1.block_on(self.0.flush())
    }
}

/// A server in this process.
fn server() -> Client {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(ours);
    std::thread::spawn(move || {
        let (input, output) = tokio::io::split(theirs);
        runtime.block_on(hipsmith_lsp::serve(input, output))
    });
    Client::over(Blocking(input, handle.clone()), Blocking(output, handle))
}

/// A server in this process that has been told about a plain editor.
fn ready() -> Client {
    let mut client = server();
    client.initialize(json!({}), Value::Null);
    client
}

fn hover(uri: &str, at: Value) -> Value {
    json!({ "textDocument": { "uri": uri }, "position": at })
}

fn codes(diagnostics: &[Value]) -> Vec<&str> {
    diagnostics
        .iter()
        .filter_map(|d| d["code"].as_str())
        .collect()
}

fn ranges(diagnostics: &[Value]) -> Vec<(&Value, &Value)> {
    diagnostics
        .iter()
        .map(|d| (&d["code"], &d["range"]))
        .collect()
}

fn at_kernel(text: &str, kernel: &str) -> Value {
    position(
        text,
        text.find(&format!("void {kernel}")).unwrap() + 5,
        true,
    )
}

fn code_actions(
    client: &mut Client,
    uri: &str,
    range: &Value,
    only: Value,
    shown: Value,
) -> Vec<Value> {
    let params = json!({
        "textDocument": { "uri": uri },
        "range": range,
        "context": { "diagnostics": shown, "only": only },
    });
    match client.request("textDocument/codeAction", params).unwrap() {
        Value::Array(actions) => actions,
        _ => Vec::new(),
    }
}

#[test]
fn a_fault_is_shown_explained_and_fixed() {
    let mut client = ready();
    client.open(URI, FAULTY);
    let shown = client.diagnostics(URI, 1);
    assert_eq!(codes(&shown), [RULE]);
    assert_eq!(
        (&shown[0]["source"], &shown[0]["severity"]),
        (&json!("hipsmith"), &json!(1))
    );
    assert_eq!(shown[0]["data"]["rule"], RULE);

    let about = client
        .request(
            "textDocument/hover",
            hover(URI, shown[0]["range"]["start"].clone()),
        )
        .unwrap();
    let text = about["contents"]["value"].as_str().unwrap();
    assert!(text.contains(RULE) && text.contains("64"), "{text}");

    for only in [json!(["quickfix"]), json!(["source.fixAll.hipsmith"])] {
        let actions = code_actions(
            &mut client,
            URI,
            &shown[0]["range"],
            only.clone(),
            json!([]),
        );
        assert_eq!(actions.len(), 1, "{only}: {actions:?}");
        let change = &actions[0]["edit"]["documentChanges"][0];
        assert_eq!(change["textDocument"], json!({ "uri": URI, "version": 1 }));
        let fixed = apply_edits(FAULTY, change["edits"].as_array().unwrap(), true);
        assert!(
            fixed.contains("unsigned long long mask") && fixed.contains("__popcll"),
            "{fixed}"
        );
        client.open("file:///nowhere/fixed.hip", &fixed);
        assert_eq!(
            client.diagnostics("file:///nowhere/fixed.hip", 1),
            Vec::<Value>::new()
        );
        client.notify(
            "textDocument/didClose",
            json!({ "textDocument": { "uri": "file:///nowhere/fixed.hip" } }),
        );
        client.diagnostics_on_close("file:///nowhere/fixed.hip");
    }
}

#[test]
fn a_client_that_never_answers_cannot_stop_hover() {
    let mut client = server();
    client.silent = true;
    let capabilities = json!({
        "window": { "workDoneProgress": true },
        "workspace": { "configuration": true, "codeLens": { "refreshSupport": true } },
    });
    client.initialize(capabilities, Value::Null);
    client.open(URI, FAULTY);
    for _ in 0..4 {
        client.notify(
            "textDocument/didSave",
            json!({ "textDocument": { "uri": URI } }),
        );
        client.notify(
            "workspace/didChangeConfiguration",
            json!({ "settings": null }),
        );
    }
    for _ in 0..8 {
        let about = client
            .request(
                "textDocument/hover",
                hover(URI, at_kernel(FAULTY, "count_positive")),
            )
            .unwrap();
        assert!(
            about["contents"]["value"]
                .as_str()
                .unwrap()
                .contains("count_positive")
        );
    }
    let asked = client
        .seen
        .iter()
        .filter(|m| m["method"] == "workspace/configuration")
        .count();
    assert!(
        asked >= 5,
        "the server asked {asked} times and got no answer"
    );
}

#[test]
fn a_burst_of_edits_ends_with_the_last_text_and_never_goes_back() {
    let mut client = ready();
    client.open(URI, "");
    // Each edit puts one character where the one before stopped, so one lost or swapped edit spoils the text.
    let mut typed = String::new();
    for (version, c) in (2..).zip(FAULTY.chars().cycle().take(500)) {
        let at = position(&typed, typed.len(), true);
        client.change(
            URI,
            version,
            json!([{ "range": { "start": at, "end": at }, "text": c.to_string() }]),
        );
        typed.push(c);
    }
    let shown = client.diagnostics(URI, 501);
    client.open("file:///nowhere/fresh.hip", &typed);
    let fresh = client.diagnostics("file:///nowhere/fresh.hip", 1);
    assert_eq!(ranges(&shown), ranges(&fresh));
    assert!(codes(&shown).contains(&RULE));

    // Asked right after an edit, the server answers for the text with that edit.
    client.change(
        URI,
        502,
        json!([{ "text": "__global__ void renamed(int *x) { *x = 1; }" }]),
    );
    let about = client
        .request(
            "textDocument/hover",
            hover(URI, json!({ "line": 0, "character": 17 })),
        )
        .unwrap();
    assert!(
        about["contents"]["value"]
            .as_str()
            .unwrap()
            .contains("renamed")
    );
    assert_eq!(client.diagnostics(URI, 502), Vec::<Value>::new());
    let versions: Vec<i64> = client
        .seen
        .iter()
        .filter(|m| m["params"]["uri"] == URI)
        .filter_map(|m| m["params"]["version"].as_i64())
        .collect();
    assert!(
        versions.is_sorted() && versions.iter().all(|v| *v < 502),
        "{versions:?}"
    );
}

#[test]
fn nothing_is_shown_after_close_and_a_new_opening_starts_over() {
    let mut client = ready();
    for round in 0..20 {
        client.open(URI, FAULTY);
        client.notify(
            "textDocument/didClose",
            json!({ "textDocument": { "uri": URI } }),
        );
        client.diagnostics_on_close(URI);
        // The same version, another text: a late result for the faulty text must not be taken for this one's.
        client.open(URI, "__global__ void fine(int *x) { *x = 1; }\n");
        let shown = client.diagnostics(URI, 1);
        assert_eq!(codes(&shown), Vec::<&str>::new(), "round {round}");
        client.notify(
            "textDocument/didClose",
            json!({ "textDocument": { "uri": URI } }),
        );
        client.diagnostics_on_close(URI);
        client.seen.clear();
    }
    client.request("hipsmith/jobs", json!({})).unwrap();
    let late: Vec<_> = client
        .seen
        .iter()
        .filter(|m| m["params"]["diagnostics"][0].is_object())
        .collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn positions_count_in_the_encoding_that_was_agreed() {
    // Characters of two, three and four bytes, of one and two UTF-16 units, before the fault, and CRLF throughout.
    let text = FAULTY
        .replace(
            "    unsigned int mask",
            "    /* \u{1F525}\u{e9}\u{20ac} */ unsigned int mask",
        )
        .replace('\n', "\r\n");
    let fault = text.find("unsigned int mask").unwrap();
    for (offered, utf16) in [
        (json!(["utf-16"]), true),
        (json!(["utf-16", "utf-8"]), false),
    ] {
        let mut client = server();
        let capabilities = client.initialize(
            json!({ "general": { "positionEncodings": offered } }),
            Value::Null,
        );
        assert_eq!(
            capabilities["positionEncoding"],
            if utf16 { "utf-16" } else { "utf-8" }
        );
        client.open(URI, &text);
        let shown = client.diagnostics(URI, 1);
        assert_eq!(codes(&shown), [RULE]);
        let range = &shown[0]["range"];
        let (start, end) = (
            offset(&text, &range["start"], utf16),
            offset(&text, &range["end"], utf16),
        );
        assert!(
            text[start..end].contains("__ballot") || text[start..end].contains("mask"),
            "{range}"
        );

        // An edit behind those characters lands where it was meant.
        let at = position(&text, fault, utf16);
        let until = position(&text, fault + "unsigned int".len(), utf16);
        client.change(
            URI,
            2,
            json!([{ "range": { "start": at, "end": until }, "text": "unsigned long long" }]),
        );
        let edited = text.replace("unsigned int mask", "unsigned long long mask");
        client.open("file:///nowhere/edited.hip", &edited);
        let fresh = client.diagnostics("file:///nowhere/edited.hip", 1);
        assert_eq!(ranges(&client.diagnostics(URI, 2)), ranges(&fresh));

        let actions = code_actions(
            &mut client,
            "file:///nowhere/edited.hip",
            &json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } }),
            json!(["source.fixAll"]),
            json!([]),
        );
        if let Some(edits) = actions
            .first()
            .map(|a| &a["edit"]["documentChanges"][0]["edits"])
        {
            let fixed = apply_edits(&edited, edits.as_array().unwrap(), utf16);
            assert!(
                fixed.contains("__popcll(mask)") && fixed.contains("\u{1F525}"),
                "{fixed}"
            );
        }
    }
}

#[test]
fn damaged_messages_and_unknown_methods_are_survived() {
    let mut client = ready();
    client.send_bytes(b"Content-Length: 9\r\n\r\n{\"broken\"");
    client.send_bytes(b"Content-Length: 4\r\n\r\n\xff\xfe\x00\x01");
    client.send_bytes(b"Content-Length: 2\r\n\r\n[]");
    client.send(&json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": 7 }));
    client.send(&json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen" }));
    client.notify("$/unheardOf", json!({}));
    let error = client
        .request("textDocument/unheardOf", json!({}))
        .unwrap_err();
    assert_eq!(error["code"], -32601);
    let error = client.command("hipsmith.unheardOf", json!({})).unwrap_err();
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("hipsmith.optimizeKernel"),
        "{error}"
    );
    let error = client
        .request("hipsmith/jobResult", json!({ "jobId": "job-9" }))
        .unwrap_err();
    assert!(
        error["message"].as_str().unwrap().contains("job-9"),
        "{error}"
    );
    // A change out of nowhere, and one of nothing that is open.
    client.change("file:///nowhere/unopened.hip", 2, json!([{ "text": "x" }]));
    client.open(URI, FAULTY);
    assert_eq!(codes(&client.diagnostics(URI, 1)), [RULE]);
    let beyond = json!({ "line": 4_000_000, "character": 4_000_000 });
    assert_eq!(
        client
            .request("textDocument/hover", hover(URI, beyond.clone()))
            .unwrap(),
        Value::Null
    );
    client.change(
        URI,
        2,
        json!([{ "range": { "start": beyond, "end": beyond }, "text": "// end" }]),
    );
    assert_eq!(codes(&client.diagnostics(URI, 2)), [RULE]);
}

#[test]
fn hostile_texts_cost_no_answer() {
    let mut client = ready();
    let texts = [
        (
            "binary",
            (0..60_000_u32)
                .map(|i| char::from_u32(i * 7 % 0x3000).unwrap_or('\0'))
                .collect(),
        ),
        (
            "braces",
            format!("__global__ void k(int *x) {}", "{ if (x) ".repeat(20_000)),
        ),
        (
            "brackets",
            format!("__global__ void k(int *x) {{ x[{}", "x[(".repeat(20_000)),
        ),
        (
            "unfinished",
            "__global__ void k(int *x) { __shared__ float s[".to_owned(),
        ),
        (
            "huge",
            "// twenty megabytes of lines, all alike, with a __global__ word in them\n"
                .repeat(280_000),
        ),
    ];
    for (name, text) in texts {
        let uri = format!("file:///nowhere/{name}.hip");
        client.open(&uri, &text);
        let asked = client.post(
            "textDocument/hover",
            hover(&uri, json!({ "line": 0, "character": 3 })),
        );
        // The others are served meanwhile.
        client.open(URI, FAULTY);
        assert_eq!(codes(&client.diagnostics(URI, 1)), [RULE], "{name}");
        client.answer(asked).unwrap();
        client.diagnostics(&uri, 1);
        for other in [URI, &uri] {
            client.notify(
                "textDocument/didClose",
                json!({ "textDocument": { "uri": other } }),
            );
            client.diagnostics_on_close(other);
        }
    }
}

#[test]
fn a_cancelled_request_is_answered_as_cancelled_or_done() {
    let mut client = ready();
    client.open(URI, &FAULTY.repeat(300));
    let id = client.post(
        "textDocument/codeLens",
        json!({ "textDocument": { "uri": URI } }),
    );
    client.notify("$/cancelRequest", json!({ "id": id }));
    if let Err(error) = client.answer(id) {
        assert_eq!(error["code"], -32800, "{error}");
    }
    client.diagnostics(URI, 1);
}

#[test]
fn plain_cpp_stays_silent() {
    let mut client = ready();
    let uri = "file:///nowhere/plain.cpp";
    client.open(uri, "#include <vector>\nint main() { return __popc(7); }\n");
    assert_eq!(client.diagnostics(uri, 1), Vec::<Value>::new());
    let lenses = client
        .request(
            "textDocument/codeLens",
            json!({ "textDocument": { "uri": uri } }),
        )
        .unwrap();
    assert_eq!(lenses, Value::Null);
    // With the first word of HIP in it the file is ours.
    client.replace(uri, 2, FAULTY);
    assert_eq!(codes(&client.diagnostics(uri, 2)), [RULE]);
}

#[test]
fn settings_come_from_everywhere_and_what_is_unknown_is_said() {
    let mut client = server();
    client.configuration = json!({ "target": "gfx906", "colour": "blue" });
    client.initialize(
        json!({ "workspace": { "configuration": true } }),
        json!({ "target": "gfx936" }),
    );
    let said = client.wait("a word about the unknown setting", |m| {
        m["method"] == "window/showMessage"
    });
    assert!(
        said["params"]["message"]
            .as_str()
            .unwrap()
            .contains("colour"),
        "{said}"
    );
    client.open(URI, FAULTY);
    client.diagnostics(URI, 1);
    let target = |client: &mut Client| {
        client
            .request(
                "textDocument/hover",
                hover(URI, at_kernel(FAULTY, "count_positive")),
            )
            .unwrap()["contents"]["value"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let about = target(&mut client);
    assert!(
        about.contains("on gfx906") && about.contains("not trusted"),
        "{about}"
    );
    client.notify(
        "workspace/didChangeConfiguration",
        json!({ "settings": { "hipsmith": { "target": "gfx928", "diagnostics": { "run": "onSave" } } } }),
    );
    client.diagnostics(URI, 1);
    let about = target(&mut client);
    assert!(about.contains("on gfx928"), "{about}");

    // On save only: an edit alone publishes nothing.
    client.replace(URI, 2, "__global__ void fine(int *x) { *x = 1; }\n");
    client.request("hipsmith/jobs", json!({})).unwrap();
    let early = client.wait_at_most(Duration::from_millis(300), |m| m["params"]["version"] == 2);
    assert_eq!(early, None);
    client.notify(
        "textDocument/didSave",
        json!({ "textDocument": { "uri": URI } }),
    );
    assert_eq!(client.diagnostics(URI, 2), Vec::<Value>::new());
}

#[test]
fn lenses_and_actions_offer_to_optimize_each_kernel() {
    let mut client = ready();
    client.open(URI, FAULTY);
    let lenses = client
        .request(
            "textDocument/codeLens",
            json!({ "textDocument": { "uri": URI } }),
        )
        .unwrap();
    assert_eq!(lenses[0]["command"]["command"], "hipsmith.optimizeKernel");
    assert_eq!(
        lenses[0]["range"]["start"],
        at_kernel(FAULTY, "count_positive")
    );
    let at = json!({ "line": 3, "character": 0 });
    let inside = json!({ "start": at, "end": at });
    let actions = code_actions(
        &mut client,
        URI,
        &inside,
        json!(["refactor.rewrite"]),
        json!([]),
    );
    let argument = actions[0]["command"]["arguments"][0].clone();
    assert_eq!(argument, json!({ "uri": URI, "kernel": "count_positive" }));
    let refused = client
        .command("hipsmith.optimizeKernel", argument)
        .unwrap_err();
    assert!(
        refused["message"].as_str().unwrap().contains("trust"),
        "{refused}"
    );
    assert_eq!(
        client.request("hipsmith/jobs", json!({})).unwrap(),
        json!({ "jobs": [] })
    );
}

#[test]
fn a_job_that_cannot_run_says_why_at_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let uri = format!("file://{}/count.hip", dir.path().display());
    let mut client = server();
    client.initialize(json!({}), json!({ "trusted": true }));
    client.open(&uri, FAULTY);
    client.diagnostics(&uri, 1);
    let unknown = json!({ "uri": uri, "kernel": "no_such_kernel" });
    let refused = client
        .command("hipsmith.optimizeKernel", unknown)
        .unwrap_err();
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("count_positive"),
        "{refused}"
    );

    // No program, no hipsmith.toml, no main: there is nothing to run it with.
    let started = client
        .command(
            "hipsmith.optimizeKernel",
            json!({ "uri": uri, "kernel": "count_positive" }),
        )
        .unwrap();
    let job = started["jobId"].clone();
    let status = client.wait("the job's end", |m| {
        m["method"] == "hipsmith/jobStatus" && m["params"]["state"] == "failed"
    });
    assert_eq!(status["params"]["jobId"], job);
    let reason = status["params"]["message"].as_str().unwrap().to_owned();
    assert!(reason.len() > 20, "{reason}");
    let shown = client.published(&uri, |p| {
        codes(p["diagnostics"].as_array().unwrap()).contains(&"optimization-result")
    });
    let result = shown
        .iter()
        .find(|d| d["code"] == "optimization-result")
        .unwrap();
    assert!(
        result["message"].as_str().unwrap().contains(&reason),
        "{result}"
    );
    assert_eq!(
        result["range"]["start"],
        at_kernel(FAULTY, "count_positive")
    );
    assert_eq!(result["severity"], 2);

    // It moves with the kernel, and goes when dismissed.
    let top = json!({ "line": 0, "character": 0 });
    client.change(
        &uri,
        2,
        json!([{ "range": { "start": top, "end": top }, "text": "\n\n" }]),
    );
    let moved = client.diagnostics(&uri, 2);
    let result = moved
        .iter()
        .find(|d| d["code"] == "optimization-result")
        .unwrap()
        .clone();
    assert_eq!(result["range"]["start"]["line"], 2);
    let actions = code_actions(
        &mut client,
        &uri,
        &result["range"],
        json!(["quickfix"]),
        json!([result]),
    );
    let dismiss: Vec<_> = actions
        .iter()
        .filter(|a| a["command"]["command"] == "hipsmith.dismissJob")
        .collect();
    assert_eq!(dismiss.len(), 1, "{actions:?}");
    assert_eq!(dismiss[0]["diagnostics"][0]["code"], "optimization-result");
    client
        .command("hipsmith.dismissJob", json!({ "jobId": job }))
        .unwrap();
    assert_eq!(codes(&client.diagnostics(&uri, 2)), [RULE]);
    client
        .command("hipsmith.acceptJob", json!({ "jobId": job }))
        .unwrap_err();
}

/// The whole life of a job, with the real compiler and simulator.
#[test]
fn a_job_is_watched_previewed_and_accepted() {
    if hipcc().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("road.hip");
    let text = std::fs::read_to_string(root().join("tests/neovim/road.hip")).unwrap();
    std::fs::write(&file, &text).unwrap();
    let uri = format!("file://{}", file.display());
    // The binary: the simulated HIP runtime lies beside it.
    let mut client = Client::start(hipsmith());
    let capabilities = json!({
        "window": { "workDoneProgress": true },
        "experimental": { "hipsmith": { "previewDiff": true } },
        "workspace": { "workspaceEdit": { "documentChanges": true, "changeAnnotationSupport": {} } },
    });
    client.initialize(
        capabilities,
        json!({ "trusted": true, "optimize": { "rounds": 2 } }),
    );
    client.open(&uri, &text);
    client.diagnostics(&uri, 1);

    // A job that is cancelled while it runs, by its progress display, frees the place for the next one.
    let argument = json!({ "uri": uri, "kernel": "rmsnorm" });
    let first = client
        .command("hipsmith.optimizeKernel", argument.clone())
        .unwrap();
    let twice = client
        .command("hipsmith.optimizeKernel", argument.clone())
        .unwrap_err();
    assert!(
        twice["message"].as_str().unwrap().contains("already"),
        "{twice}"
    );
    let begun = client.wait("progress", |m| m["params"]["value"]["kind"] == "begin");
    assert_eq!(begun["params"]["value"]["cancellable"], true);
    client.notify(
        "window/workDoneProgress/cancel",
        json!({ "token": begun["params"]["token"] }),
    );
    let ended = client.wait("the cancelled job's end", |m| {
        m["params"]["state"] == "cancelled"
    });
    assert_eq!(ended["params"]["jobId"], first["jobId"]);
    client.wait("the progress's end", |m| {
        m["params"]["value"]["kind"] == "end"
    });

    let job = client.command("hipsmith.optimizeKernel", argument).unwrap()["jobId"].clone();
    let ended = client
        .wait_at_most(Duration::from_secs(900), |m| {
            m["params"]["jobId"] == job
                && m["method"] == "hipsmith/jobStatus"
                && !matches!(m["params"]["state"].as_str(), Some("queued" | "running"))
        })
        .expect("the job ends");
    assert_eq!(ended["params"]["state"], "finished", "{ended}");
    assert!(
        ended["params"]["speedup"].as_f64().unwrap() > 1.0,
        "{ended}"
    );
    assert_eq!(ended["params"]["evidence"], "simulated");
    client.wait("a report of a round", |m| {
        m["params"]["value"]["kind"] == "report"
    });
    client.wait("the progress's end", |m| {
        m["params"]["value"]["kind"] == "end"
    });
    let has_result =
        |p: &Value| codes(p["diagnostics"].as_array().unwrap()).contains(&"optimization-result");
    let shown = client.published(&uri, has_result);
    let result = shown
        .iter()
        .find(|d| d["code"] == "optimization-result")
        .unwrap();
    assert_eq!(result["severity"], 3, "{result}");
    assert_eq!(result["range"]["start"], at_kernel(&text, "rmsnorm"));
    assert!(
        result["message"].as_str().unwrap().contains("simulated"),
        "{result}"
    );
    let related = result["relatedInformation"].as_array().unwrap();
    let journal = related
        .iter()
        .find(|r| r["location"]["uri"] != uri.as_str())
        .expect("the journal is named");
    let journal = journal["location"]["uri"]
        .as_str()
        .unwrap()
        .strip_prefix("file://")
        .unwrap();
    assert!(std::path::Path::new(journal).is_file(), "{journal}");
    assert!(
        related.len() > 1,
        "the changed lines are named: {related:?}"
    );

    let hovered = client
        .request(
            "textDocument/hover",
            hover(&uri, at_kernel(&text, "rmsnorm")),
        )
        .unwrap();
    let hovered = hovered["contents"]["value"].as_str().unwrap();
    assert!(
        hovered.contains("VGPRs") && hovered.contains("compiled for gfx906"),
        "{hovered}"
    );
    let lenses = client
        .request(
            "textDocument/codeLens",
            json!({ "textDocument": { "uri": uri } }),
        )
        .unwrap();
    assert!(
        lenses.to_string().contains("hipsmith.client.previewJob"),
        "{lenses}"
    );

    let preview = client
        .command("hipsmith.previewJob", json!({ "jobId": job }))
        .unwrap();
    assert_eq!(preview["oldText"], text);
    let new_text = preview["newText"].as_str().unwrap();
    assert_ne!(new_text, text);

    // The person has changed a line the job changes: no place is certainly right, so nothing is touched.
    let changed = similar_line(&text, new_text);
    client.replace(
        &uri,
        2,
        &text.replacen(changed, &format!("{} // mine\n", changed.trim_end()), 1),
    );
    client.diagnostics(&uri, 2);
    let refused = client
        .command("hipsmith.acceptJob", json!({ "jobId": job }))
        .unwrap_err();
    assert!(
        refused["message"].as_str().unwrap().contains("changed"),
        "{refused}"
    );

    // A line added elsewhere moves the edit.
    let current = format!("// a line of the person's\n{text}");
    client.replace(&uri, 3, &current);
    client.diagnostics(&uri, 3);
    client
        .command("hipsmith.acceptJob", json!({ "jobId": job }))
        .unwrap();
    let asked = client.wait("the edit", |m| m["method"] == "workspace/applyEdit");
    let change = &asked["params"]["edit"]["documentChanges"][0];
    assert_eq!(change["textDocument"], json!({ "uri": uri, "version": 3 }));
    let edits = change["edits"].as_array().unwrap();
    assert_eq!(
        apply_edits(&current, edits, true),
        format!("// a line of the person's\n{new_text}")
    );
    assert!(
        edits.iter().all(|e| e["annotationId"].is_string()),
        "{edits:?}"
    );
    client.published(&uri, |p| p["version"] == 3 && !has_result(p));
    let jobs = client.request("hipsmith/jobs", json!({})).unwrap();
    assert!(!jobs.to_string().contains(job.as_str().unwrap()), "{jobs}");

    client.request("shutdown", Value::Null).unwrap();
    client.notify("exit", Value::Null);
    assert_eq!(
        client.ended(Duration::from_secs(20)).and_then(|s| s.code()),
        Some(0)
    );
}

/// The first line of `old` that `new` does not have.
fn similar_line<'a>(old: &'a str, new: &str) -> &'a str {
    old.split_inclusive('\n')
        .find(|line| !new.split_inclusive('\n').any(|other| other == *line))
        .expect("the texts differ in a line")
}

#[test]
fn the_binary_ends_when_told_whatever_the_state_of_its_input() {
    let orderly = |client: &mut Client| {
        client.initialize(json!({}), Value::Null);
        client.open(URI, FAULTY);
        client.diagnostics(URI, 1);
        client.request("shutdown", Value::Null).unwrap();
        client.notify("exit", Value::Null);
    };
    let abrupt = |client: &mut Client| {
        client.initialize(json!({}), Value::Null);
        client.notify("exit", Value::Null);
    };
    let cut_off = |client: &mut Client| {
        client.initialize(json!({}), Value::Null);
        client.close_input();
    };
    let steps = [
        ("shutdown, exit", orderly as fn(&mut Client), 0),
        ("exit alone", abrupt, 1),
        ("end of input", cut_off, 1),
    ];
    for (what, step, code) in steps {
        let mut client = Client::start(hipsmith());
        step(&mut client);
        let ended = client.ended(Duration::from_secs(20));
        assert_eq!(ended.and_then(|s| s.code()), Some(code), "{what}");
    }
}

#[test]
fn the_binary_ends_with_the_editor_that_started_it() {
    let mut editor = Command::new("sleep").arg("600").spawn().unwrap();
    let mut client = Client::start(hipsmith());
    let params = json!({ "processId": editor.id(), "rootUri": null, "capabilities": {} });
    client.request("initialize", params).unwrap();
    client.notify("initialized", json!({}));
    assert_eq!(
        client.ended(Duration::from_secs(3)),
        None,
        "the editor still lives"
    );
    editor.kill().unwrap();
    editor.wait().unwrap();
    assert!(
        client.ended(Duration::from_secs(20)).is_some(),
        "the server outlives its editor"
    );
}

#[test]
fn an_untrusted_workspace_runs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Were anything run, this would be: the folder's own configuration asks for it.
    let mark = dir.path().join("ran");
    let config = format!(
        "[[subject]]\nkernel = \"count_positive\"\nprogram = [\"touch\", \"{}\"]\n",
        mark.display()
    );
    std::fs::write(dir.path().join("hipsmith.toml"), config).unwrap();
    std::fs::write(dir.path().join("count.hip"), FAULTY).unwrap();
    let uri = format!("file://{}/count.hip", dir.path().display());
    let mut client = server();
    client.initialize(json!({}), json!({}));
    client.open(&uri, FAULTY);
    // Findings need no trust.
    assert!(!client.diagnostics(&uri, 1).is_empty());
    let refused = client
        .command(
            "hipsmith.optimizeKernel",
            json!({ "uri": uri, "kernel": "count_positive" }),
        )
        .unwrap_err();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("trust this workspace"), "{message}");
    assert_eq!(
        client.request("hipsmith/jobs", json!({})).unwrap(),
        json!({ "jobs": [] })
    );
    assert!(!mark.exists() && !dir.path().join(".hipsmith").exists());
}

#[test]
fn a_project_file_sets_levels_and_a_comment_silences() {
    let dir = tempfile::tempdir().unwrap();
    let toml = dir.path().join("hipsmith.toml");
    std::fs::write(&toml, format!("[rules]\n{RULE} = \"warning\"\n")).unwrap();
    let uri = format!("file://{}/a.hip", dir.path().display());
    let mut client = ready();
    client.open(&uri, FAULTY);
    let shown = client.diagnostics(&uri, 1);
    assert_eq!(
        (codes(&shown), &shown[0]["severity"]),
        (vec![RULE], &json!(2))
    );

    let actions = code_actions(
        &mut client,
        &uri,
        &shown[0]["range"],
        json!(["refactor.hipsmith.suppress"]),
        json!([]),
    );
    assert_eq!(actions.len(), 1, "{actions:?}");
    let edits = &actions[0]["edit"]["documentChanges"][0]["edits"];
    let silenced = apply_edits(FAULTY, edits.as_array().unwrap(), true);
    client.replace(&uri, 2, &silenced);
    assert_eq!(
        client.diagnostics(&uri, 2),
        Vec::<Value>::new(),
        "{silenced}"
    );

    // A mistake is told, and saving reads the file again.
    client.replace(&uri, 3, FAULTY);
    client.diagnostics(&uri, 3);
    std::fs::write(&toml, "[rules]\nno-such-rule-at-all = \"off\"\n").unwrap();
    client.notify(
        "textDocument/didSave",
        json!({ "textDocument": { "uri": uri } }),
    );
    client.wait("the mistake", |m| {
        m["method"] == "window/showMessage"
            && m["params"]["message"]
                .as_str()
                .is_some_and(|t| t.contains("no-such-rule-at-all"))
    });
    let shown = client.diagnostics(&uri, 3);
    assert_eq!(shown[0]["severity"], 1);
}
