//! What the language server shows around a kernel besides diagnostics: symbols, inlay hints, why a rule matters; and
//! that it follows the project's files without a save.

use std::path::Path;

use hipsmith_tests::hipsmith;
use hipsmith_tests::lsp::{Client, position};
use serde_json::{Value, json};

const URI: &str = "file:///nowhere/shapes.hip";

/// Each kind of symbol once. The tile takes 32 * 33 * 4 = 4224 bytes, `part` N * 8.
const SHAPES: &str = "\
#define SIDE 32
constexpr int COUNT = SIDE * 2;
struct Pair {
    float a, b;
    __device__ float sum() const { return a + b; }
};
__global__ void tiled(const float *x, float *y)
{
    __shared__ float tile[SIDE][SIDE + 1];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
template <int N>
__global__ void sums(double *y)
{
    __shared__ double part[N];
    extern __shared__ float rest[];
    part[threadIdx.x] = rest[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = part[N - 1 - threadIdx.x];
}
void go(float *x, double *y, int n)
{
    tiled<<<n, dim3(32, 8)>>>(x, x);
    sums<64><<<8, 64, 1024>>>(y);
    sums<128><<<8, 128, n>>>(y);
}
";

fn ready(capabilities: Value, options: Value) -> Client {
    let mut client = Client::start(hipsmith());
    client.initialize(capabilities, options);
    client
}

fn nested() -> Value {
    json!({ "textDocument": { "documentSymbol": { "hierarchicalDocumentSymbolSupport": true } } })
}

fn symbols(client: &mut Client) -> Vec<Value> {
    let params = json!({ "textDocument": { "uri": URI } });
    let answer = client.request("textDocument/documentSymbol", params);
    answer.unwrap().as_array().unwrap().clone()
}

/// Symbols as an outline: `name: detail` with two spaces for each level.
fn outline(symbols: &[Value], level: usize, out: &mut Vec<String>) {
    for symbol in symbols {
        let detail = symbol["detail"].as_str().unwrap_or("-");
        let name = symbol["name"].as_str().unwrap();
        out.push(format!("{}{name}: {detail}", "  ".repeat(level)));
        if let Some(children) = symbol["children"].as_array() {
            outline(children, level + 1, out);
        }
    }
}

/// Hints of some lines as `line:column label`, and all tooltips.
fn hints(
    client: &mut Client,
    uri: &str,
    lines: std::ops::Range<u32>,
) -> (Vec<String>, Vec<String>) {
    let params = json!({
        "textDocument": { "uri": uri },
        "range": {
            "start": { "line": lines.start, "character": 0 },
            "end": { "line": lines.end, "character": 0 },
        },
    });
    let answer = client.request("textDocument/inlayHint", params).unwrap();
    let hints = answer.as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let labels = hints.iter().map(|hint| {
        let at = &hint["position"];
        format!(
            "{}:{} {}",
            at["line"],
            at["character"],
            text(&hint["label"])
        )
    });
    let tooltips = hints.iter().map(|hint| text(&hint["tooltip"]));
    (labels.collect(), tooltips.collect())
}

#[test]
fn symbols_stand_in_one_another_with_their_figures() {
    let mut client = ready(nested(), Value::Null);
    client.open(URI, SHAPES);
    let symbols = symbols(&mut client);
    let mut shown = Vec::new();
    outline(&symbols, 0, &mut shown);
    assert_eq!(
        shown,
        [
            "SIDE: = 32",
            "COUNT: = 64",
            "Pair: -",
            "  sum: device",
            "tiled: kernel, LDS 4,224 B, launched <<<?, 32x8>>>",
            "  tile: LDS 4,224 B",
            "sums: kernel, LDS 512 B (N = 64), 1,024 B (N = 128), dynamic LDS, launched <<<8, 64, 1,024 B>>>, <<<8, 128, ? B>>>",
            "  part: LDS 512 B (N = 64), 1,024 B (N = 128)",
            "  rest: dynamic LDS",
            "go: host",
        ]
    );
    let tiled = &symbols[3];
    let start = position(SHAPES, SHAPES.find("tiled").unwrap(), true);
    let end = position(SHAPES, SHAPES.find("tiled").unwrap() + 5, true);
    assert_eq!(
        tiled["selectionRange"],
        json!({ "start": start, "end": end })
    );
    assert_eq!(
        tiled["range"]["start"],
        json!({ "line": 6, "character": 0 })
    );
    assert_eq!(tiled["range"]["end"], json!({ "line": 12, "character": 1 }));
}

#[test]
fn a_client_that_knows_no_nesting_gets_a_list() {
    let mut client = ready(json!({}), Value::Null);
    client.open(URI, SHAPES);
    let shown: Vec<(String, String)> = symbols(&mut client)
        .iter()
        .map(|symbol| {
            assert_eq!(symbol["location"]["uri"], URI);
            let word = |key: &str| symbol[key].as_str().unwrap_or_default().to_owned();
            (word("name"), word("containerName"))
        })
        .collect();
    let expected = [
        ("SIDE", ""),
        ("COUNT", ""),
        ("Pair", ""),
        ("sum", "Pair"),
        ("tiled", ""),
        ("tile", "tiled"),
        ("sums", ""),
        ("part", "sums"),
        ("rest", "sums"),
        ("go", ""),
    ];
    assert_eq!(shown, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn unfinished_text_has_symbols_inside_their_ranges() {
    let mut client = ready(nested(), Value::Null);
    for (version, end) in (2..).zip((0..SHAPES.len()).step_by(37)) {
        if version == 2 {
            client.open(URI, SHAPES);
        }
        client.replace(URI, version, &format!("{}__global__ void", &SHAPES[..end]));
        let mut todo = symbols(&mut client);
        while let Some(symbol) = todo.pop() {
            let at = |range: &str, side: &str| {
                let place = &symbol[range][side];
                (place["line"].as_u64(), place["character"].as_u64())
            };
            let (range, name) = ("range", "selectionRange");
            assert!(at(range, "start") <= at(name, "start"), "{symbol}");
            assert!(at(name, "end") <= at(range, "end"), "{symbol}");
            todo.extend(symbol["children"].as_array().cloned().unwrap_or_default());
        }
    }
}

#[test]
fn hints_show_predicted_figures_of_the_lines_asked_for() {
    let mut client = ready(json!({}), json!({ "target": "gfx906" }));
    client.open(URI, SHAPES);
    let (labels, tooltips) = hints(&mut client, URI, 0..40);
    assert_eq!(
        labels,
        [
            "6:21 LDS 4,224 B, occupancy ≤ 10/10",
            "8:41 4,224 B",
            "14:20 LDS 512 B (N = 64), 1,024 B (N = 128)",
            "16:29 512 B (N = 64), 1,024 B (N = 128)",
        ]
    );
    for tooltip in &tooltips {
        assert!(tooltip.starts_with("Predicted for gfx906"), "{tooltip}");
    }
    assert_eq!(
        tooltips[1],
        "Predicted for gfx906: tile takes 4,224 B of the 65,536 B of LDS, 6.4 % of what a workgroup may have."
    );
    let (labels, _) = hints(&mut client, URI, 7..9);
    assert_eq!(labels, ["8:41 4,224 B"]);

    // 33 KB leave room for one workgroup of four wavefronts on a compute unit: one for each SIMD.
    let larger = SHAPES.replace("SIDE + 1", "8 * SIDE + 2");
    client.replace(URI, 2, &larger);
    let (labels, tooltips) = hints(&mut client, URI, 6..7);
    assert_eq!(labels, ["6:21 LDS 33,024 B, occupancy ≤ 1/10"]);
    assert!(tooltips[0].contains("at most 1 of 10 wavefronts per SIMD with 256 lanes and 33,024 B of LDS per workgroup, limited by LDS"), "{}", tooltips[0]);
}

#[test]
fn hints_are_switched_one_by_one_and_asked_for_again() {
    let capabilities = json!({ "workspace": { "inlayHint": { "refreshSupport": true } } });
    let mut client = ready(
        capabilities,
        json!({ "inlayHints": { "occupancy": false } }),
    );
    client.open(URI, SHAPES);
    assert_eq!(hints(&mut client, URI, 6..9).0, ["8:41 4,224 B"]);
    for (switches, expected) in [
        (
            json!({ "occupancy": true, "ldsBytes": false }),
            vec!["6:21 LDS 4,224 B, occupancy ≤ 10/10"],
        ),
        (json!({ "enable": false }), vec![]),
        (
            json!({ "enable": true, "ldsBytes": true, "occupancy": false }),
            vec!["8:41 4,224 B"],
        ),
    ] {
        client.seen.clear();
        client.notify(
            "workspace/didChangeConfiguration",
            json!({ "settings": { "hipsmith": { "inlayHints": switches } } }),
        );
        client.wait("a refresh", |m| {
            m["method"] == "workspace/inlayHint/refresh"
        });
        assert_eq!(hints(&mut client, URI, 6..9).0, expected);
    }
}

#[test]
fn a_client_without_refresh_is_not_asked() {
    let mut client = ready(json!({}), Value::Null);
    client.open(URI, SHAPES);
    client.notify(
        "workspace/didChangeConfiguration",
        json!({ "settings": { "hipsmith": { "inlayHints": { "enable": false } } } }),
    );
    assert_eq!(hints(&mut client, URI, 0..40).0, Vec::<String>::new());
    assert!(
        client
            .seen
            .iter()
            .all(|m| m["method"] != "workspace/inlayHint/refresh")
    );
}

#[test]
fn a_hover_at_a_finding_says_why() {
    let text =
        "__global__ void k(unsigned* o, bool p) {\n  unsigned m = __ballot(p);\n  o[0] = m;\n}\n";
    let mut client = ready(json!({}), Value::Null);
    client.open(URI, text);
    let shown = client.diagnostics(URI, 1);
    assert_eq!(shown[0]["code"], "ballot-in-32-bits");
    let params = json!({ "textDocument": { "uri": URI }, "position": shown[0]["range"]["start"] });
    let about = client.request("textDocument/hover", params).unwrap();
    let about = about["contents"]["value"].as_str().unwrap();
    let parts: Vec<&str> = about.split("\n\n").collect();
    assert_eq!(parts.len(), 3, "{about}");
    assert_eq!(
        parts[0],
        "**ballot-in-32-bits** (wave size): The mask of a 64-lane vote is kept or counted in 32 bits, so lanes 32 to 63 are lost."
    );
    assert!(
        parts[1].starts_with("**Why on this hardware:** A vote returns one bit per lane: 64 bits."),
        "{about}"
    );
    assert_eq!(
        parts[2],
        "`hipsmith explain ballot-in-32-bits` has the whole page."
    );
}

fn file_uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

#[test]
fn project_files_are_watched_and_in_force_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("hipsmith.toml");
    std::fs::write(&config, "target = \"gfx906\"\n").unwrap();
    let file = dir.path().join("k.hip");
    std::fs::write(&file, SHAPES).unwrap();
    let uri = file_uri(&file);
    let capabilities = json!({ "workspace": {
        "didChangeWatchedFiles": { "dynamicRegistration": true },
        "inlayHint": { "refreshSupport": true },
    } });
    let mut client = ready(capabilities, Value::Null);
    let asked = client.wait("a registration", |m| {
        m["method"] == "client/registerCapability"
    });
    let registration = &asked["params"]["registrations"][0];
    assert_eq!(registration["method"], "workspace/didChangeWatchedFiles");
    assert_eq!(
        registration["registerOptions"]["watchers"],
        json!([{ "globPattern": "**/hipsmith.toml" }, { "globPattern": "**/compile_commands.json" }])
    );
    client.open(&uri, SHAPES);
    let (_, tooltips) = hints(&mut client, &uri, 8..9);
    assert!(
        tooltips[0].starts_with("Predicted for gfx906:"),
        "{tooltips:?}"
    );
    client.diagnostics(&uri, 1);

    std::fs::write(&config, "target = \"gfx942\"\n# another length\n").unwrap();
    client.seen.clear();
    let event =
        |name: &str| json!({ "changes": [{ "uri": file_uri(&dir.path().join(name)), "type": 2 }] });
    // Another file's change is none of ours.
    client.notify("workspace/didChangeWatchedFiles", event("notes.toml"));
    let (_, tooltips) = hints(&mut client, &uri, 8..9);
    assert!(
        tooltips[0].starts_with("Predicted for gfx906:"),
        "{tooltips:?}"
    );
    client.notify("workspace/didChangeWatchedFiles", event("hipsmith.toml"));
    let (_, tooltips) = hints(&mut client, &uri, 8..9);
    assert!(
        tooltips[0].starts_with("Predicted for gfx942:"),
        "{tooltips:?}"
    );
    client.wait("a refresh", |m| {
        m["method"] == "workspace/inlayHint/refresh"
    });
    // The same text is checked again.
    client.diagnostics(&uri, 1);

    // A compilation database that appears counts from then on.
    let database = json!([{
        "directory": dir.path(), "file": "k.hip", "arguments": ["hipcc", "-DSIDE_GIVEN", "-c", "k.hip"],
    }]);
    let guarded = SHAPES.replace(
        "#define SIDE 32\n",
        "#ifdef SIDE_GIVEN\n#define SIDE 16\n#else\n#define SIDE 32\n#endif\n",
    );
    client.replace(&uri, 2, &guarded);
    assert_eq!(hints(&mut client, &uri, 12..13).0, ["12:41 4,224 B"]);
    std::fs::write(
        dir.path().join("compile_commands.json"),
        database.to_string(),
    )
    .unwrap();
    client.notify(
        "workspace/didChangeWatchedFiles",
        event("compile_commands.json"),
    );
    assert_eq!(hints(&mut client, &uri, 12..13).0, ["12:41 1,088 B"]);
}

#[test]
fn a_client_that_cannot_watch_is_not_asked_to() {
    let mut client = ready(json!({}), Value::Null);
    client.open(URI, SHAPES);
    client.diagnostics(URI, 1);
    assert!(
        client
            .seen
            .iter()
            .all(|m| m["method"] != "client/registerCapability")
    );
}
